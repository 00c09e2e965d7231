package rest

import (
	"net/http"

	"github.com/quorate/quorate/docs/schema"
)

// schemaRoutes returns the routes of the JSON schemas of files, for editors.
func schemaRoutes() (out []route) {
	for _, name := range schema.Names() {
		out = append(out, route{
			method: http.MethodGet, path: "/v1/schema/" + name + ".json", summary: schemaWords[name],
			serve: func(w http.ResponseWriter, req *http.Request) (int, error) {
				if _, err := query(req); err != nil {
					return 0, err
				}
				return writeJSON(w, http.StatusOK, schema.Of(name)), nil
			},
		})
	}
	return out
}

// schemaWords are the summaries of the schemas in the API's description.
var schemaWords = map[string]string{
	"limits":   "The JSON schema of the limit file, for editors.",
	"node":     "The JSON schema of a node's settings, for editors.",
	"scenario": "The JSON schema of the simulator's scenarios, for editors. It refers to that of the limit file, beside it.",
}
