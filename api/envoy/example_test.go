package envoy

import (
	"encoding/json"
	"os"
	"slices"
	"testing"
	"time"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	quotafilterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rate_limit_quota/v3"
	ratelimitfilterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ratelimit/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3" // a type that envoy.yaml names
	managerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3" // likewise
	_ "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"              // likewise
	"go.yaml.in/yaml/v4"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/quorate/quorate/config"
	"github.com/quorate/quorate/internal/descriptor"
	"github.com/quorate/quorate/internal/quota"
)

// TestExample reads examples/envoy/envoy.yaml as Envoy does, with its types and their constraints,
// and compares both forms of its limits with the descriptors that it makes.
func TestExample(t *testing.T) {
	b := bootstrap(t, "../../examples/envoy/envoy.yaml")
	var manager managerv3.HttpConnectionManager
	unpack(t, b.StaticResources.Listeners[0].FilterChains[0].Filters[0].GetTypedConfig(), &manager)
	var filter ratelimitfilterv3.RateLimit
	unpack(t, manager.HttpFilters[0].GetTypedConfig(), &filter)
	service := filter.RateLimitService.GrpcService.GetEnvoyGrpc().ClusterName
	if !slices.ContainsFunc(clustersOf(b), func(name string) bool { return name == service }) {
		t.Errorf("there is no cluster %s", service)
	}

	limits, err := config.LoadLimits("../../examples/envoy/limits.yaml")
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile("../../examples/envoy/ratelimit.yaml")
	if err != nil {
		t.Fatal(err)
	}
	converted, err := config.Convert("envoy-ratelimit", "ratelimit.yaml", data)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.EqualFunc(limits, converted.Limits, func(a, b quota.Limit) bool { return a.Equal(&b) }) {
		t.Errorf("limits.yaml says other limits than ratelimit.yaml, which is\n%s", converted.YAML)
	}
	n := newNode(t, limits...)
	rules := rulesOf(t, string(data))
	tree, ok := rules.tree(filter.Domain)
	if !ok {
		t.Fatalf("ratelimit.yaml has no domain %s", filter.Domain)
	}
	native := descriptor.NewIndex(n.limits)
	route := manager.GetRouteConfig().VirtualHosts[0].Routes[0].GetRoute()
	if len(route.RateLimits) < 3 {
		t.Fatalf("%d descriptors", len(route.RateLimits))
	}
	for _, r := range route.RateLimits {
		entries := entriesOfActions(t, r)
		if tree.Match(entries) == nil || native.Match(filter.Domain, entries) == nil {
			t.Errorf("no limit is for %q", entries)
		}
	}
}

// TestExampleOfQuotas reads examples/envoy-rlqs/envoy.yaml in the same way, which has the parts
// that Envoy's quota filter uses. It checks for what Quorate needs: a namespace, a limit, and a
// report every few seconds.
func TestExampleOfQuotas(t *testing.T) {
	parts := readYAML(t, "../../examples/envoy-rlqs/envoy.yaml")
	cluster := &clusterv3.Cluster{Name: "quorate"}
	fromJSON(t, parts["clusters"].([]any)[0], cluster)
	var http managerv3.HttpFilter
	fromJSON(t, parts["http_filters"].([]any)[0], &http)
	var filter quotafilterv3.RateLimitQuotaFilterConfig
	unpack(t, http.GetTypedConfig(), &filter)
	if name := filter.RlqsServer.GetEnvoyGrpc().ClusterName; name != cluster.Name || filter.Domain == "" {
		t.Errorf("cluster %q of %q, domain %q", name, cluster.Name, filter.Domain)
	}
	var bucket quotafilterv3.RateLimitQuotaBucketSettings
	unpack(t, filter.BucketMatchers.OnNoMatch.GetAction().GetTypedConfig(), &bucket)
	if limit := bucket.BucketIdBuilder.BucketIdBuilder["limit"].GetStringValue(); limit == "" || bucket.ReportingInterval.AsDuration() > 5*time.Second {
		t.Errorf("limit %q, reports every %v", limit, bucket.ReportingInterval.AsDuration())
	}
}

// readYAML parses a file of Envoy as a map.
func readYAML(t *testing.T, path string) (out map[string]any) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// fromJSON converts parsed YAML to a message, with Envoy's constraints.
func fromJSON(t *testing.T, from any, to interface {
	proto.Message
	ValidateAll() error
},
) {
	t.Helper()
	text, err := json.Marshal(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := protojson.Unmarshal(text, to); err != nil {
		t.Fatal(err)
	}
	if err := to.ValidateAll(); err != nil {
		t.Fatal(err)
	}
}

func bootstrap(t *testing.T, path string) *bootstrapv3.Bootstrap {
	t.Helper()
	b := &bootstrapv3.Bootstrap{}
	fromJSON(t, readYAML(t, path), b)
	return b
}

func unpack[M interface {
	proto.Message
	ValidateAll() error
}](t *testing.T, from *anypb.Any, to M,
) {
	t.Helper()
	if err := from.UnmarshalTo(to); err != nil {
		t.Fatal(err)
	}
	if err := to.ValidateAll(); err != nil {
		t.Fatal(err)
	}
}

func clustersOf(b *bootstrapv3.Bootstrap) (out []string) {
	for _, c := range b.StaticResources.Clusters {
		out = append(out, c.Name)
	}
	return out
}

// entriesOfActions returns the entries that Envoy makes of a request from 1.2.3.4.
func entriesOfActions(t *testing.T, r *routev3.RateLimit) (out []descriptor.Entry) {
	t.Helper()
	for _, a := range r.Actions {
		switch {
		case a.GetRemoteAddress() != nil:
			out = append(out, descriptor.Entry{Key: "remote_address", Value: "1.2.3.4"})
		case a.GetHeaderValueMatch() != nil:
			out = append(out, descriptor.Entry{Key: a.GetHeaderValueMatch().DescriptorKey, Value: a.GetHeaderValueMatch().DescriptorValue})
		case a.GetRequestHeaders() != nil:
			out = append(out, descriptor.Entry{Key: a.GetRequestHeaders().DescriptorKey, Value: "some"})
		default:
			t.Fatalf("what does Envoy make of %v?", a)
		}
	}
	return out
}
