package client

// DefaultHTTP is the client that is used unless one is given.
var DefaultHTTP = defaultHTTP
