// Package rest serves the API over HTTP/JSON: its routes, their OpenAPI document, the check for proxies,
// probes, metrics, and what others mount on the same port, such as the console.
//
// # Routes
//
// The table in routes.go is all there is: the router, the OpenAPI document at
// GET /v1/openapi.json and its test are made from it. The document's words are
// the comments of the protos, which are built in.
//
// # Browsers
//
// A node without authentication answers to its own names only (hosts.go), and no page of another
// site may have a browser change anything (crossorigin.go).
package rest
