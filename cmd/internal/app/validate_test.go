package app_test

import (
	"strings"
	"testing"

	"github.com/cinnabar-hub/cinnabar/cmd/internal/app"
)

func TestRefusalsAndWarnings(t *testing.T) {
	keys := []string{"--publisher-jwt-key=" + secret, "--subscriber-jwt-key=" + secret, "--listen=127.0.0.1:0"}
	with := func(args ...string) []string { return append(append([]string(nil), keys...), args...) }
	cluster := func(args ...string) []string {
		return append([]string{"--cluster-listen=127.0.0.1:6222", "--cluster-peer=127.0.0.1:6223", "--cluster-secret=" + secret}, args...)
	}
	pem := "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----"
	for name, tt := range map[string]struct {
		args    []string
		refused string // "" = it starts
		warning string // "" = none
	}{
		"two keys":                        {keys, "", ""},
		"no keys":                         {nil, "no keys", ""},
		"dev needs none":                  {[]string{"--dev"}, "", ""},
		"dev for the world":               {[]string{"--dev", "--listen=:3000"}, "not a loopback address", ""},
		"dev on the loopback of IPv6":     {[]string{"--dev", "--listen=[::1]:3000"}, "", ""},
		"dev on a socket":                 {[]string{"--dev", "--listen=unix:/tmp/hub.sock"}, "", ""},
		"no publisher":                    {keys[1:], "", "every publication will be refused"},
		"no subscriber":                   {[]string{keys[0], keys[2]}, "", "every subscriber will be refused"},
		"no subscriber, anonymous":        {[]string{keys[0], keys[2], "--anonymous"}, "", "only anonymous ones are served"},
		"short secret":                    {with("--publisher-jwt-key=short"), "at least 32", ""},
		"short secret allowed":            {with("--publisher-jwt-key=short", "--allow-short-keys"), "", "only 5 bytes"},
		"PEM with HMAC":                   {with("--subscriber-jwt-key=" + pem), "shared secret", ""},
		"secret with RS256":               {with("--subscriber-jwt-alg=RS256"), "PEM form", ""},
		"no such key file":                {with("--publisher-jwt-key=@/nowhere/key"), "/nowhere/key", ""},
		"key and set":                     {with("--publisher-jwks-url=https://a.example/jwks"), "choose one", ""},
		"set over plain HTTP":             {[]string{"--listen=127.0.0.1:0", "--publisher-jwks-url=http://a.example/jwks"}, "https:// or file://", ""},
		"subscriptions":                   {with("--subscriptions", "--rejoin-grace=5s"), "", ""},
		"grace for nobody":                {with("--rejoin-grace=5s"), "", "--rejoin-grace is of no use without --subscriptions"},
		"any origin":                      {with("--cors-origin=*"), "", ""},
		"any origin and another":          {with("--cors-origin=*", "--cors-origin=https://a.example"), "every origin", ""},
		"any origin and cookies to POST":  {with("--cors-origin=*", "--publish-origin=https://a.example"), "no cookies", ""},
		"any origin and a cookie's name":  {with("--cors-origin=*", "--cookie-name=mercureAuthorization"), "no cookies", ""},
		"any origin may publish":          {with("--publish-origin=*"), "", "any page can publish"},
		"any page may publish":            {with("--publish-origin=null"), "", "--publish-origin null: any page can publish"},
		"any page may read":               {with("--cors-origin=null"), "", "--cors-origin null: any page can read"},
		"a cookie name that is none":      {with("--cookie-name=a;b"), "not a name", ""},
		"certificate without key":         {with("--tls-cert=a.pem"), "go together", ""},
		"certificate that is not there":   {with("--tls-cert=/nowhere/a.pem", "--tls-key=/nowhere/b.pem"), "/nowhere/a.pem", ""},
		"address that is none":            {with("--listen=3000"), "must be host:port", ""},
		"descriptor that is none":         {with("--listen=fd:x"), "number of an open file", ""},
		"admin of dev for the world":      {[]string{"--dev", "--admin-listen=0.0.0.0:3001"}, "--admin-listen 0.0.0.0:3001 is not a loopback address", ""},
		"admin address that is none":      {with("--admin-listen=x"), "--admin-listen", ""},
		"admin socket by activation":      {with("--admin-listen=systemd"), "FileDescriptorName=admin", ""},
		"no write timeout":                {with("--write-timeout=0"), "--write-timeout", ""},
		"no publish timeout":              {with("--publish-timeout=0"), "--publish-timeout", ""},
		"no time to shut down":            {with("--shutdown-timeout=0"), "--shutdown-timeout", ""},
		"no data directory":               {with("--data-dir="), "--data-dir", ""},
		"no data directory, but not used": {with("--data-dir=", "--transport=memory"), "", ""},
		"updates the broker cannot hold":  {with("--max-body=31MiB"), "at most 30MiB", ""},
		"updates that memory can hold":    {with("--max-body=31MiB", "--transport=memory"), "", ""},
		"history of no length":            {with("--history-max-age=1ms"), "--history-max-age", ""},
		"NATS":                            {with("--nats-url=nats://127.0.0.1:4222", "--nats-url=tls://n2.example:4222"), "", ""},
		"NATS needs no directory":         {with("--nats-url=nats://127.0.0.1:4222", "--data-dir="), "", ""},
		"NATS and a cluster":              {with("--nats-url=nats://127.0.0.1:4222", "--cluster-listen=127.0.0.1:6222"), "choose one", ""},
		"NATS and memory":                 {with("--nats-url=nats://127.0.0.1:4222", "--transport=memory"), "--transport memory keeps the log in this process alone", ""},
		"a cluster and memory":            {with(cluster("--transport=memory")...), "cannot be used with --cluster-listen", ""},
		"NATS over HTTP":                  {with("--nats-url=http://127.0.0.1:4222"), "nats://host:port or tls://host:port", ""},
		"NATS without a scheme":           {with("--nats-url=127.0.0.1:4222"), "nats://host:port or tls://host:port", ""},
		"NATS with a list in one":         {with("--nats-url=nats://a:4222,nats://b:4222"), "nats://host:port or tls://host:port", ""},
		"a NATS user without NATS":        {with("--nats-user=joe", "--nats-password=x"), "--nats-user is of no use without --nats-url", ""},
		"a NATS user without a password":  {with("--nats-url=nats://127.0.0.1:4222", "--nats-user=joe"), "go together", ""},
		"a NATS user and a token":         {with("--nats-url=nats://127.0.0.1:4222", "--nats-user=joe", "--nats-password=x", "--nats-token=y"), "more than one way", ""},
		"a NATS user twice":               {with("--nats-url=nats://joe:x@127.0.0.1:4222", "--nats-token=y"), "more than one way", ""},
		"a NATS certificate without key":  {with("--nats-url=tls://127.0.0.1:4222", "--nats-tls-cert=a.pem"), "--nats-tls-cert and --nats-tls-key go together", ""},
		"NATS authorities not there":      {with("--nats-url=tls://127.0.0.1:4222", "--nats-tls-ca=/nowhere/ca.pem"), "--nats-tls-ca: open /nowhere/ca.pem", ""},
		"NATS credentials of no kind":     {with("--nats-url=tls://127.0.0.1:4222", "--nats-creds=/dev/null"), "--nats-creds: ", ""},
		"NATS credentials not there":      {with("--nats-url=tls://127.0.0.1:4222", "--nats-creds=/nowhere/a.creds"), "--nats-creds: nats: open /nowhere/a.creds", ""},
		"a NATS password not there":       {with("--nats-url=tls://127.0.0.1:4222", "--nats-user=joe", "--nats-password=@/nowhere/p"), "/nowhere/p", ""},
		"a password in the clear":         {with("--nats-url=nats://n.example:4222", "--nats-user=joe", "--nats-password=x"), "", "without TLS"},
		"a token of the URL in the clear": {with("--nats-url=nats://" + secret + "@n.example:4222"), "", "without TLS"},
		"a password on this machine":      {with("--nats-url=nats://localhost:4222", "--nats-user=joe", "--nats-password=x"), "", ""},
		"a password over TLS":             {with("--nats-url=tls://n.example:4222", "--nats-user=joe", "--nats-password=x"), "", ""},
		"a cluster":                       {with(cluster()...), "", ""},
		"a cluster for the world":         {with(cluster("--cluster-listen=:6222")...), "", "can be read on the way between them"},
		"a cluster of dev for the world":  {cluster("--dev", "--cluster-listen=:6222"), "stays on this machine", ""},
		"a cluster without a secret":      {with(cluster("--cluster-secret=")...), "needs --cluster-secret", ""},
		"a cluster with a short secret":   {with(cluster("--cluster-secret=fifteen bytes!!")...), "only 15 bytes, at least 16", ""},
		"a cluster without peers":         {with("--cluster-listen=127.0.0.1:6222", "--cluster-secret="+secret), "no other node", ""},
		"a cluster on any port":           {with(cluster("--cluster-listen=127.0.0.1:0")...), "port from 1 to 65535", ""},
		"a peer without a port":           {with(cluster("--cluster-peer=b")...), `--cluster-peer: "b"`, ""},
		"a peer without a host":           {with(cluster("--cluster-peer=:6222")...), "must name a host", ""},
		"peers without a cluster":         {with("--cluster-peer=b:6222"), "of no use without --cluster-listen", ""},
		"a cluster with half of TLS":      {with(cluster("--cluster-tls-cert=a.pem", "--cluster-tls-key=b.pem")...), "not all are given", ""},
		"a cluster's certificate missing": {with(cluster("--cluster-tls-cert=/nowhere/a.pem", "--cluster-tls-key=/nowhere/b.pem", "--cluster-tls-ca=/nowhere/c.pem")...), "--cluster-tls-cert /nowhere/a.pem", ""},
		"two copies":                      {with(cluster("--replicas=2")...), "must be 1, 3 or 5", ""},
		"three copies on one server":      {with("--replicas=3"), "as many servers", ""},
		"three nodes of dev":              {[]string{"--dev", "--nodes=3"}, "", ""},
		"two nodes of dev":                {[]string{"--dev", "--nodes=2"}, "must be 1 or 3", ""},
		"three nodes without dev":         {with("--nodes=3"), "--nodes is for --dev", ""},
		"three nodes on one socket":       {[]string{"--dev", "--nodes=3", "--listen=unix:/tmp/hub.sock"}, "--nodes: --listen", ""},
		"three nodes without ports":       {[]string{"--dev", "--nodes=3", "--listen=127.0.0.1:65533"}, "leaves room", ""},
		"three nodes and NATS":            {[]string{"--dev", "--nodes=3", "--nats-url=nats://127.0.0.1:4222"}, "a cluster of its own", ""},
		"three nodes in memory":           {[]string{"--dev", "--nodes=3", "--transport=memory"}, "--cluster-listen or --nodes", ""},
		"memory without bounds":           {with("--transport=memory", "--history-max-bytes=0"), "", "until memory is full"},
	} {
		t.Run(name, func(t *testing.T) {
			s, _, err := load(t, "", nil, tt.args...)
			if err != nil {
				t.Fatal(err)
			}
			log, lines := logged(t)
			_, err = app.New(s.Config, log)
			switch {
			case tt.refused == "" && err != nil:
				t.Errorf("refused: %v", err)
			case tt.refused != "" && (err == nil || !strings.Contains(err.Error(), tt.refused)):
				t.Errorf("error %v, want one with %q", err, tt.refused)
			}
			if err != nil {
				return
			}
			warnings := lines()
			if strings.Contains(warnings, secret) {
				t.Errorf("the log tells a secret: %s", warnings)
			}
			if tt.warning == "" && strings.Contains(warnings, "WARN") {
				t.Errorf("warned: %s", warnings)
			}
			if !strings.Contains(warnings, tt.warning) {
				t.Errorf("log %q, want %q", warnings, tt.warning)
			}
		})
	}
}

func TestEveryReasonIsToldAtOnce(t *testing.T) {
	s, _, err := load(t, "", nil, "--publisher-jwt-key=short", "--subscriber-jwt-key=short", "--write-timeout=0", "--tls-cert=x")
	if err != nil {
		t.Fatal(err)
	}
	err = app.Check(s.Config)
	for _, want := range []string{"--publisher-jwt-key", "--subscriber-jwt-key", "--write-timeout", "--tls-key"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error does not name %s: %v", want, err)
		}
	}
}
