package rest

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/quorate/quorate/api"
	"github.com/quorate/quorate/api/apierr"
	"github.com/quorate/quorate/api/apijson"
	"github.com/quorate/quorate/api/apitest"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/docs/schema"
	"github.com/quorate/quorate/internal/golden"
)

func loadOpenAPI(t *testing.T) *openapi3.T {
	t.Helper()
	a := call(t, http.MethodGet, serveHTTP(t, apitest.New(t)).URL+"/v1/openapi.json", "")
	doc, err := openapi3.NewLoader().LoadFromData([]byte(a.body))
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// TestOpenAPI checks that the document is valid, and has every route and no other.
func TestOpenAPI(t *testing.T) {
	doc := loadOpenAPI(t)
	if err := doc.Validate(t.Context(), openapi3.EnableSchemaFormatValidation()); err != nil {
		t.Error(err)
	}
	documented := map[string]bool{}
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			documented[method+" "+path] = true
			if op.Summary == "" || op.Description == "" || op.OperationID == "" {
				t.Errorf("%s %s: no words: %q, %q, %q", method, path, op.Summary, op.Description, op.OperationID)
			}
		}
	}
	for path, methods := range newRouter(api.New(apitest.New(t), api.Options{}), Options{}).byPath {
		for method := range methods {
			if !documented[method+" "+path] {
				t.Errorf("%s %s is served and not documented", method, path)
			}
			delete(documented, method+" "+path)
		}
	}
	for route := range documented {
		t.Errorf("%s is documented and not served", route)
	}
}

// TestOpenAPIForGenerators checks that the document tells client generators how wide numbers are
// and how to give a credential.
func TestOpenAPIForGenerators(t *testing.T) {
	doc := loadOpenAPI(t)
	for name, s := range doc.Components.Schemas {
		for field, p := range s.Value.Properties {
			if name != "Problem" && p.Value != nil && p.Value.Type.Includes("integer") && p.Value.Format == "" {
				t.Errorf("%s.%s: a whole number without a format", name, field)
			}
		}
	}
	if f := doc.Components.Schemas["HistoryPoint"].Value.Properties["attempted"].Value.Format; f != "int64" {
		t.Errorf("tokens are %s", f)
	}
	for _, one := range doc.Security {
		for name := range one {
			if doc.Components.SecuritySchemes[name] == nil {
				t.Errorf("there is no credential %s", name)
			}
		}
	}
	if len(doc.Security) != 3 || doc.Components.SecuritySchemes["token"].Value.Scheme != "bearer" {
		t.Errorf("%v", doc.Security)
	}
}

// TestOpenAPIDescribesAnswers validates real answers against the schemas.
func TestOpenAPIDescribesAnswers(t *testing.T) {
	doc := loadOpenAPI(t)
	srv := serveHTTP(t, apitest.New(t).WithAccounts())
	for _, c := range []struct{ method, path, body, schema string }{
		{"POST", "/v1/allow", `{"namespace":"web","limit":"login","key":"k","cost":5}`, "AllowResponse"},
		{"POST", "/v1/allow", `{"namespace":"web","limit":"login","key":"k","cost":5}`, "AllowResponse"},
		{"POST", "/v1/allow:batch", `{"checks":[{},{"namespace":"web","limit":"login"}]}`, "AllowBatchResponse"},
		{"POST", "/v1/reserve", `{"checks":[{"namespace":"web","limit":"login"}]}`, "ReserveResponse"},
		{"GET", "/v1/limits?file=true", "", "GetLimitsResponse"},
		{"GET", "/v1/limits/versions", "", "ListVersionsResponse"},
		{"PUT", "/v1/overrides", `{"overrides":[{"namespace":"web","limit":"login","key":"k","burst":5}]}`, "SetOverridesResponse"},
		{"GET", "/v1/overrides", "", "ListOverridesResponse"},
		{"GET", "/v1/rates", "", "TopRatesResponse"},
		{"GET", "/v1/status", "", "GetStatusResponse"},
		{"GET", "/v1/allow", "", "Problem"},
		{"POST", "/v1/accounts:apply", `{"ops":[` + buildOp + `]}`, "ApplyOpsResponse"},
		{"POST", "/v1/accounts:get", `{"accounts":[` + aliceJSON + `,` + nobodyJSON + `]}`, "GetAccountsResponse"},
		{"GET", "/v1/admin/accounts?app_id=cv&realm=project:infra", "", "ListAccountsResponse"},
		{"GET", "/v1/admin/realms", "", "ListRealmsResponse"},
		{"GET", "/v1/admin/accounts:history?" + aliceQuery, "", "GetAccountHistoryResponse"},
		{"GET", "/v1/admin/policies:get?app_id=cv&realm=project:infra&version=$abc", "", "GetPoliciesResponse"},
		{"GET", "/v1/admin/policies?app_id=cv&realm=project:infra", "", "ListPoliciesResponse"},
	} {
		a := call(t, c.method, srv.URL+c.path, c.body)
		schema := doc.Components.Schemas[c.schema]
		if schema == nil {
			t.Fatalf("there is no schema %s", c.schema)
		}
		if err := schema.Value.VisitJSON(any(a.fields), openapi3.EnableJSONSchema2020()); err != nil {
			t.Errorf("%s %s: %v\n%s", c.method, c.path, err, a.body)
		}
		delete(a.fields, "limit")
		a.fields["allowed"], a.fields["keys"], a.fields["status"] = "x", 1.0, "x"
		if err := schema.Value.VisitJSON(any(a.fields), openapi3.EnableJSONSchema2020()); err == nil && (c.schema == "AllowResponse" || c.schema == "Problem") {
			t.Errorf("%s: the schema takes anything", c.schema)
		}
	}
}

// TestEveryElementHasAComment compares the parsed comments with the descriptors.
func TestEveryElementHasAComment(t *testing.T) {
	words, n := comments(), 0
	see := func(name string) {
		n++
		if len(words[name]) < 3 {
			t.Errorf("%s has no comment", name)
		}
	}
	protoregistry.GlobalFiles.RangeFilesByPackage(quoratev1.File_quorate_v1_quota_proto.Package(), func(f protoreflect.FileDescriptor) bool {
		for i := range f.Messages().Len() {
			m := f.Messages().Get(i)
			see(string(m.Name()))
			for j := range m.Fields().Len() {
				fd := m.Fields().Get(j)
				see(string(m.Name()) + "." + string(fd.Name()))
				if o, ok := fd.Options().(*descriptorpb.FieldOptions); ok && proto.Size(o) > 0 {
					t.Errorf("%s has the options %v: compilers of distributions may not know them", fd.FullName(), o)
				}
			}
		}
		for i := range f.Services().Len() {
			s := f.Services().Get(i)
			for j := range s.Methods().Len() {
				see(string(s.Name()) + "." + string(s.Methods().Get(j).Name()))
			}
		}
		return true
	})
	if n < 200 {
		t.Errorf("only %d elements were seen", n)
	}
}

// TestEveryCallIsOnBothWires checks that every call of a service has a route, and that the route of
// a call with plain fields can be read.
func TestEveryCallIsOnBothWires(t *testing.T) {
	routed := map[string]bool{}
	for _, r := range newRouter(api.New(apitest.New(t), api.Options{}), Options{}).routes() {
		routed[r.rpc] = true
		if r.req == nil {
			continue
		}
		fields := r.req.ProtoReflect().Descriptor().Fields()
		for i := range fields.Len() {
			fd := fields.Get(i)
			if r.in != fromJSON && string(fd.Name()) != r.without && fd.Kind() == protoreflect.MessageKind && fd.Message().ParentFile().Package() != "google.protobuf" {
				t.Errorf("%s %s: %s cannot be in a query", r.method, r.path, fd.Name())
			}
		}
	}
	protoregistry.GlobalFiles.RangeFilesByPackage(quoratev1.File_quorate_v1_quota_proto.Package(), func(f protoreflect.FileDescriptor) bool {
		for i := range f.Services().Len() {
			s := f.Services().Get(i)
			for j := range s.Methods().Len() {
				m := s.Methods().Get(j)
				if m.IsStreamingClient() {
					continue // only gRPC has streams in both directions
				}
				if name := string(s.Name()) + "." + string(m.Name()); !routed[name] {
					t.Errorf("%s has no HTTP route", name)
				}
			}
		}
		return true
	})
}

// FuzzDecodeProto checks that the decoder never panics, accepts only JSON, and reads back what
// apijson.Format writes.
func FuzzDecodeProto(f *testing.F) {
	for _, s := range []string{
		`{"checks":[{"namespace":"web","limit":"a","key":"k","cost":1,"max_wait":0.5,"method":"","path":""}],"ttl":30}`,
		`{"overrides":[{"namespace":"web","limit":"a","key":"k","class":"banned","rate":"1/s","burst":null,"scale":1.5,"expires":"2100-01-02T03:04:05.5Z"}]}`,
		`{"request_id":"r","request_id_ttl":7200,"ops":[{"account_id":{"app_id":"a","realm":"r","name":"n"},"relative_to":"zero","delta":"-5","options":1}]}`,
		`{"app_id":"a","config":{"policies":[{"key":{"name":"n"},"policy":{"default":"7","limit":9007199254740991,"refill":{"units":-1,"interval":3600},"lifetime":1.5}}]}}`,
		`{"from":{"version":3},"to":{"yaml":"x"}}`, `{"from":null}`, `{"checks":[null]}`, `{"ttl":null}`, `{"overrides":[{"scale":1e400}]}`, `{"checks":[{}`, `{"overrides":[{"class":"unknown"}]}`, `{"to":{"version":-0}}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, m := range []interface {
			protoreflect.ProtoMessage
			Reset()
		}{&quoratev1.ApplyOpsRequest{}, &quoratev1.LoadPoliciesRequest{}, &quoratev1.ReserveRequest{}, &quoratev1.SetOverridesRequest{}, &quoratev1.DiffLimitsRequest{}, &quoratev1.SettleRequest{}} {
			if fault := apijson.Decode(b, m, "{}"); fault != nil {
				if apierr.From(fault).Field == "" || apierr.From(fault).Detail == "" || len(fault.Error()) > 3000 {
					t.Errorf("bad fault %q of %q", fault.Error(), b)
				}
				continue
			}
			if !json.Valid(b) {
				t.Fatalf("%q was accepted", b)
			}
			text := string(apijson.Format(m))
			if strings.Contains(text, `"unknown"`) {
				continue // an unset enum has no word to read
			}
			m.Reset()
			if fault := apijson.Decode([]byte(text), m, "{}"); fault != nil {
				t.Fatalf("%s: %v", text, fault)
			}
			if again := string(apijson.Format(m)); again != text {
				t.Errorf("%s became %s", text, again)
			}
		}
	})
}

// TestOpenAPIPublished checks that docs/openapi.json is the document that a node serves.
func TestOpenAPIPublished(t *testing.T) {
	const file = "../../docs/openapi.json"
	var b bytes.Buffer
	if err := json.Indent(&b, []byte(call(t, http.MethodGet, serveHTTP(t, apitest.New(t)).URL+"/v1/openapi.json", "").body), "", " "); err != nil {
		t.Fatal(err)
	}
	golden.Hold(t, file, b.String(), *rewriteDoc)
}

// TestSchemasServed checks that every published schema of a file is served unchanged.
func TestSchemasServed(t *testing.T) {
	url := serveHTTP(t, apitest.New(t)).URL
	for _, name := range schema.Names() {
		a := call(t, http.MethodGet, url+"/v1/schema/"+name+".json", "")
		if a.code != http.StatusOK || strings.TrimSpace(a.body) != strings.TrimSpace(string(schema.Of(name))) {
			t.Errorf("%s: %d %.80s", name, a.code, a.body)
		}
	}
	if a := call(t, http.MethodGet, url+"/v1/schema/limits.json?pretty=1", ""); a.code != http.StatusBadRequest {
		t.Errorf("an unknown parameter: %d %s", a.code, a.body)
	}
}
