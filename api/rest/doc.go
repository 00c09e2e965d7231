// Package rest serves the API over HTTP/JSON: its routes, their OpenAPI document, the check for
// proxies, probes, metrics, and handlers that others mount on the same port, such as the console.
//
// # Routes
//
// The table in routes.go lists every route. The router, the OpenAPI document at GET
// /v1/openapi.json and its test are built from the table. The document's descriptions are the
// comments of the protos, which are embedded in the program.
//
// # Browsers
//
// A node without authentication answers only to its own names (hosts.go), and it refuses changes
// that a browser makes for a page of another site (crossorigin.go).
package rest
