package spec

// Header names used by the protocol.
const (
	HeaderLastEventID        = "Last-Event-ID"         // classic §State Reconciliation; WHATWG HTML §9.2
	HeaderMercureLastEventID = "Mercure-Last-Event-ID" // draft-08 §Reconciliation
	HeaderRequestID          = "X-Request-Id"          // ours: ties an answer to its line in the log
)

// DefaultHubPath is where a hub lives unless configured otherwise. Source: classic §Hub; draft-08 §Discovery.
const DefaultHubPath = "/.well-known/mercure"

// Earliest is the reserved event id that asks for the whole history and that says, in an answer,
// that something before the first event may be missing. Source: REQUIREMENTS REC-08, REC-12.
const Earliest = "earliest"

// Wildcard is the selector that matches every topic; it is never a topic itself.
const Wildcard = "*"

// Names of the fields of a publication. Source: classic and draft-08 §Publication.
const (
	FieldTopic   = "topic"
	FieldData    = "data"
	FieldPrivate = "private"
	FieldID      = "id"
	FieldType    = "type"
	FieldRetry   = "retry"
	FieldTarget  = "target" // hubs before 0.10; refused so that nothing private becomes public
)

// TypeMercure is the event type reserved for the hub's own events. Source: draft-08; PUB-17.
const TypeMercure = "mercure"

// MediaTypeForm is the only media type of a publication.
const MediaTypeForm = "application/x-www-form-urlencoded"

// Classic cookie, query parameter and claims. Source: classic §Authorization.
const (
	CookieClassic      = "mercureAuthorization"
	ParamAuthorization = "authorization"
	ClaimMercure       = "mercure"
	ClaimNamespaced    = "https://mercure.rocks/"
)

// Draft-08's parameters of a subscription. Every other parameter whose name begins with ParamMatch in any case is
// refused (SUB-08 … SUB-10).
const (
	ParamMatch           = "match" // exact
	ParamMatchExact      = "match_exact"
	ParamMatchURLPattern = "match_urlpattern"
)

// CookieDraft08 is where a browser keeps a draft-08 token. Source: draft-08 §Authorization; D08-18.
const CookieDraft08 = "__Secure-mercure_access_token"

// TokenTypeDraft08 is the typ of a draft-08 token, which alone decides how it is verified. Source: RFC 9068; D08-01, G-01.
const TokenTypeDraft08 = "at+jwt"

// MethodQuery is GET with a body. Source: draft-08 §Subscription; SUB-02.
const MethodQuery = "QUERY"

// AuthorizationDetailType marks the entries of authorization_details that belong to a Mercure hub.
// Source: draft-08 §Authorization; D08-08.
const AuthorizationDetailType = "https://mercure.rocks/authorization-detail"
