// Subscribes with one of the libraries and prints one JSON line for everything that happens.
// Usage: node client.mjs eventsource|fetch-event-source URL TOKEN
const [library, url, token] = process.argv.slice(2);
const say = (what, more = {}) => console.log(JSON.stringify({ what, ...more }));

if (library === "eventsource") {
  const { EventSource } = await import("eventsource");
  const source = new EventSource(url, {
    fetch: (input, init) => fetch(input, { ...init, headers: { ...init.headers, Authorization: `Bearer ${token}` } }),
  });
  source.onopen = () => say("open");
  source.onmessage = (e) => say("message", { id: e.lastEventId, data: e.data });
  source.addEventListener("typed", (e) => say("typed", { id: e.lastEventId, data: e.data }));
  source.onerror = () => say(source.readyState === EventSource.CLOSED ? "closed" : "reconnecting");
} else {
  // The library is made for pages: it asks the window for timers and fetch and the document for visibility.
  globalThis.window = globalThis;
  globalThis.document = { hidden: false, addEventListener() {}, removeEventListener() {} };
  const { createRequire } = await import("node:module");
  const { fetchEventSource } = createRequire(import.meta.url)("@microsoft/fetch-event-source");
  await fetchEventSource(url, {
    headers: { Authorization: `Bearer ${token}` },
    openWhenHidden: true,
    async onopen(response) {
      say("open", { status: response.status, cursor: response.headers.get("Last-Event-ID") });
    },
    onmessage: (e) => say(e.event === "" ? "message" : e.event, { id: e.id, data: e.data }),
    onclose() {
      throw new Error("the stream ended"); // the library's way of asking for a reconnection
    },
    onerror: () => say("reconnecting"), // no interval returned: that of the retry field counts
  });
}
