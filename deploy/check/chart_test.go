package check

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"github.com/quorate/quorate/config"
)

const chartDir = "../helm/quorate"

// parts holds the objects and the notes of a rendered chart.
type parts struct {
	statefulSet *appsv1.StatefulSet
	settings    *corev1.ConfigMap
	services    map[string]*corev1.Service
	budget      *policyv1.PodDisruptionBudget
	account     *corev1.ServiceAccount
	policy      *networkingv1.NetworkPolicy
	monitor     map[string]any
	notes       string
}

// render renders the chart with values as helm template does. It decodes every object strictly:
// a field that Kubernetes does not have fails the test. Its error comes from Helm.
func render(t *testing.T, values string) (*parts, error) {
	t.Helper()
	chart, err := loader.LoadDir(chartDir)
	if err != nil {
		t.Fatal(err)
	}
	given := map[string]any{}
	if err := yaml.Unmarshal([]byte(values), &given); err != nil {
		t.Fatal(err)
	}
	all, err := util.ToRenderValues(chart, given, common.ReleaseOptions{Name: "quorate", Namespace: "limits", IsInstall: true}, common.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	files, err := engine.Render(chart, all)
	if err != nil {
		return nil, err
	}
	p := &parts{services: map[string]*corev1.Service{}}
	for name, text := range files {
		if strings.HasSuffix(name, "NOTES.txt") {
			p.notes = text
			continue
		}
		for _, doc := range strings.Split(text, "\n---") {
			if strings.TrimSpace(doc) != "" {
				p.add(t, name, doc)
			}
		}
	}
	return p, nil
}

func (p *parts) add(t *testing.T, name, doc string) {
	t.Helper()
	var kind struct{ Kind string }
	if err := yaml.Unmarshal([]byte(doc), &kind); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, doc)
	}
	var to any
	switch kind.Kind {
	case "StatefulSet":
		p.statefulSet = &appsv1.StatefulSet{}
		to = p.statefulSet
	case "ConfigMap":
		p.settings = &corev1.ConfigMap{}
		to = p.settings
	case "Service":
		s := &corev1.Service{}
		to = s
		defer func() { p.services[s.Name] = s }()
	case "PodDisruptionBudget":
		p.budget = &policyv1.PodDisruptionBudget{}
		to = p.budget
	case "ServiceAccount":
		p.account = &corev1.ServiceAccount{}
		to = p.account
	case "NetworkPolicy":
		p.policy = &networkingv1.NetworkPolicy{}
		to = p.policy
	case "ServiceMonitor":
		to = &p.monitor
	default:
		t.Fatalf("%s: an object of kind %q", name, kind.Kind)
	}
	if err := yaml.UnmarshalStrict([]byte(doc), to); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, doc)
	}
}

func mustRender(t *testing.T, values string) *parts {
	t.Helper()
	p, err := render(t, values)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// valueSets are examples of values that users may set.
var valueSets = map[string]string{
	"default": "",
	"plain":   "{tls: {mode: off}, bootstrap: false, persistence: {storageClassName: fast}}",
	"all": `
replicas: 5
cluster: eu
zone: eu-1a
linger: 15s
terminationGracePeriodSeconds: 60
redisPort: 7415
ports: {http: 8411, grpc: 8412, peer: 8413}
image: {digest: "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}
imagePullSecrets: [{name: registry}]
priorityClassName: high
settings: {sync: 50ms, max_keys: 2000000, protocols: {gubernator: on}, access: {bindings: [{identity: "client:ci", role: limit-writer, scope: "namespace:web"}]}}
limits: |
  version: 1
  namespaces: {web: {limits: {login: {rate: 5/m, burst: 5}}}}
service: {type: LoadBalancer, annotations: {a: b}}
podAnnotations: {c: d}
podLabels: {e: f}
nodeSelector: {disk: fast}
tolerations: [{key: dedicated, operator: Exists}]
extraEnv: [{name: GOMEMLIMIT, value: 900MiB}]
networkPolicy: {enabled: true, from: [{namespaceSelector: {matchLabels: {team: shop}}}]}
serviceMonitor: {enabled: true, labels: {release: prometheus}, authorization: {credentials: {name: scrape, key: token}}, tlsConfig: {insecureSkipVerify: true}}
podDisruptionBudget: {maxUnavailable: 20%}
serviceAccount: {annotations: {g: h}}
`,
}

// TestChartLint checks that helm lint reports no error and no warning.
func TestChartLint(t *testing.T) {
	for name, values := range valueSets {
		given := map[string]any{}
		if err := yaml.Unmarshal([]byte(values), &given); err != nil {
			t.Fatal(err)
		}
		l := lint.RunAll(chartDir, given, "limits")
		for _, m := range l.Messages {
			if m.Severity > support.InfoSev {
				t.Errorf("%s: %s", name, m)
			}
		}
	}
}

// TestChart checks the rendered objects against the program and against each other.
func TestChart(t *testing.T) {
	for name, values := range valueSets {
		t.Run(name, func(t *testing.T) {
			p := mustRender(t, values)
			s := p.readSettings(t)
			p.checkPod(t, &s)
			p.checkServices(t, &s)
			spec := &p.statefulSet.Spec
			if spec.PodManagementPolicy != appsv1.ParallelPodManagement {
				t.Error("pods start one after the other: after an outage of all the first would wait for a majority for ever")
			}
			if p.budget == nil || p.budget.Spec.MaxUnavailable == nil || !sameMap(p.budget.Spec.Selector.MatchLabels, spec.Selector.MatchLabels) {
				t.Error("no budget of disruptions for the pods")
			}
			for k, v := range spec.Selector.MatchLabels {
				if spec.Template.Labels[k] != v {
					t.Errorf("the pods have not the label %s=%s that selects them", k, v)
				}
			}
			if got := p.services[spec.ServiceName]; got == nil || got.Spec.ClusterIP != corev1.ClusterIPNone || !got.Spec.PublishNotReadyAddresses {
				t.Errorf("%s is no headless service that has all pods", spec.ServiceName)
			}
		})
	}
	if p := mustRender(t, "serviceMonitor: {enabled: true}"); p.monitor["kind"] != "ServiceMonitor" || p.policy != nil {
		t.Error("a monitor is not made, or a policy is, that nobody asked for")
	}
	// With TLS, Prometheus must scrape the name that the certificate has.
	for tls, name := range map[string]string{"auto": "$1.quorate-nodes.limits.svc:7411", "off": ""} {
		p := mustRender(t, "{serviceMonitor: {enabled: true}, tls: {mode: "+tls+"}}")
		if got := fmt.Sprint(p.monitor["spec"]); strings.Contains(got, "$1.") != (name != "") || !strings.Contains(got, name) {
			t.Errorf("with tls.mode %s: %s", tls, got)
		}
	}
	if p := mustRender(t, "podDisruptionBudget: {enabled: false}\nserviceAccount: {create: false, name: mine}"); p.budget != nil || p.account != nil || p.statefulSet.Spec.Template.Spec.ServiceAccountName != "mine" {
		t.Error("a budget or an account is made that nobody wants")
	}
}

func sameMap(a, b map[string]string) bool {
	for k, v := range a {
		if b[k] != v {
			return false
		}
	}
	return len(a) == len(b)
}

// readSettings loads the node's settings as a pod does: from the file and the environment.
func (p *parts) readSettings(t *testing.T) config.Node {
	t.Helper()
	dir := t.TempDir()
	for name, text := range p.settings.Data {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, value := range p.environment(t, "quorate-1") {
		t.Setenv(name, value)
	}
	s, err := config.LoadNode(filepath.Join(dir, "node.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if s.Limits != "" {
		if _, err := config.LoadLimits(s.Limits); err != nil {
			t.Error(err)
		}
	}
	return s
}

// environment returns the environment variables of a pod as Kubernetes sets them.
func (p *parts) environment(t *testing.T, pod string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, e := range p.container().Env {
		value := e.Value
		if e.ValueFrom != nil {
			if path := e.ValueFrom.FieldRef.FieldPath; path != "metadata.name" {
				t.Fatalf("%s is the pod's %s", e.Name, path)
			}
			value = pod
		}
		for name, known := range out {
			value = strings.ReplaceAll(value, "$("+name+")", known)
		}
		out[e.Name] = value
		if strings.HasPrefix(e.Name, "QUORATE_") && !slices.Contains(config.Variables(), e.Name) {
			t.Errorf("%s is no variable of a node", e.Name)
		}
	}
	return out
}

func (p *parts) container() *corev1.Container { return &p.statefulSet.Spec.Template.Spec.Containers[0] }

// port returns the number of the container port with that name.
func (p *parts) port(t *testing.T, name string) string {
	t.Helper()
	for _, one := range p.container().Ports {
		if one.Name == name {
			return strconv.Itoa(int(one.ContainerPort))
		}
	}
	t.Errorf("there is no port %q", name)
	return ""
}

// checkPod checks the pod against the settings in its file and environment.
func (p *parts) checkPod(t *testing.T, s *config.Node) {
	t.Helper()
	pod, c := &p.statefulSet.Spec.Template.Spec, p.container()
	if got := strings.Join(c.Args, " "); got != "serve --config /etc/quorate/node.yaml" {
		t.Errorf("it runs with %q", got)
	}
	if string(s.Node) != "quorate-1" || s.Advertise != "quorate-1.quorate-nodes.limits.svc" {
		t.Errorf("the second pod is %s at %s", s.Node, s.Advertise)
	}
	switch {
	case s.TLS.Mode == config.TLSOff: // no pod can prove that it may join: all are listed
		second := config.Peer{ID: s.Node, Peer: s.Advertise + ":" + p.port(t, "peer")}
		if len(s.Nodes) != int(*p.statefulSet.Spec.Replicas) || s.Nodes[1] != second || len(s.Join) > 0 || s.Bootstrap != "" {
			t.Errorf("nodes %v, join %v, bootstrap %q; want all pods in nodes, the second as %v, and nobody joins", s.Nodes, s.Join, s.Bootstrap, second)
		}
	case len(s.Join) != 1 || s.Join[0] != "quorate-nodes.limits.svc:"+p.port(t, "grpc"):
		t.Errorf("it joins at %v", s.Join)
	}
	if s.Bootstrap != "" && s.Bootstrap != p.statefulSet.Name+"-0" {
		t.Errorf("%s makes the cluster; there is no such pod", s.Bootstrap)
	}
	for name, listen := range map[string]string{"http": s.Listen.HTTP, "grpc": s.Listen.GRPC, "peer": s.Listen.Peer, "redis": s.Redis} {
		if listen != "" && listen != ":"+p.port(t, name) {
			t.Errorf("it serves %s at %s, and its port is %s", name, listen, p.port(t, name))
		}
	}
	mounted := map[string]string{}
	for _, m := range c.VolumeMounts {
		mounted[m.MountPath] = m.Name
	}
	for path, volume := range map[string]string{s.Data: "data", s.TLS.CA: "ca", s.TLS.CAKey: "ca"} {
		if path != "" && mounted[filepath.Dir(path)] != volume {
			t.Errorf("%s is not in the volume %s: %v", path, volume, mounted)
		}
	}
	if (mounted["/ca"] != "") != (s.TLS.Mode != config.TLSOff) {
		t.Error("an authority without TLS, or TLS without one")
	}
	grace := *pod.TerminationGracePeriodSeconds
	if need := int64(s.Linger.Seconds()) + stopSeconds; grace < need {
		t.Errorf("it is killed after %d s; a clean stop may take %d", grace, need)
	}
	scheme := corev1.URISchemeHTTPS
	if s.TLS.Mode == config.TLSOff {
		scheme = corev1.URISchemeHTTP
	}
	for what, probe := range map[string]*corev1.Probe{"/healthz": c.LivenessProbe, "/readyz": c.ReadinessProbe, "/healthz ": c.StartupProbe} {
		if probe == nil || probe.HTTPGet.Path != strings.TrimSpace(what) || probe.HTTPGet.Port != intstr.FromString("http") || probe.HTTPGet.Scheme != scheme {
			t.Errorf("the probe of %s: %+v", what, probe)
		}
	}
	p.checkHardened(t)
}

// stopSeconds is the longest time in seconds that a clean stop takes after linger: twice the
// stopTime of internal/cli/server, once for the handover and once for closing.
const stopSeconds = 20

// checkHardened checks that the pod meets the restricted profile of the Kubernetes Pod Security
// Standards, and that its root file system is read-only.
func (p *parts) checkHardened(t *testing.T) {
	t.Helper()
	pod, c := p.statefulSet.Spec.Template.Spec.SecurityContext, p.container().SecurityContext
	switch {
	case pod.RunAsNonRoot == nil || !*pod.RunAsNonRoot || pod.RunAsUser == nil || *pod.RunAsUser == 0,
		pod.SeccompProfile == nil || pod.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault,
		c.AllowPrivilegeEscalation == nil || *c.AllowPrivilegeEscalation,
		c.ReadOnlyRootFilesystem == nil || !*c.ReadOnlyRootFilesystem,
		c.Capabilities == nil || !slices.Equal(c.Capabilities.Drop, []corev1.Capability{"ALL"}) || len(c.Capabilities.Add) > 0:
		t.Errorf("the pod may more than it needs: %+v, %+v", pod, c)
	}
	if auto := p.statefulSet.Spec.Template.Spec.AutomountServiceAccountToken; auto == nil || *auto {
		t.Error("the pod has a token of the Kubernetes API, which it never calls")
	}
}

// checkServices checks that every service selects the pods and targets their ports, and that
// the network policy, if there is one, opens every port.
func (p *parts) checkServices(t *testing.T, s *config.Node) {
	t.Helper()
	if len(p.services) != 2 {
		t.Errorf("%d services", len(p.services))
	}
	for _, one := range p.services {
		if !sameMap(one.Spec.Selector, p.statefulSet.Spec.Selector.MatchLabels) {
			t.Errorf("%s is not of the pods: %v", one.Name, one.Spec.Selector)
		}
		for _, port := range one.Spec.Ports {
			if got := p.port(t, port.TargetPort.StrVal); got != strconv.Itoa(int(port.Port)) {
				t.Errorf("%s: port %d is %s of the pod", one.Name, port.Port, got)
			}
		}
	}
	if p.policy == nil {
		return
	}
	open := map[string]bool{}
	for _, rule := range p.policy.Spec.Ingress {
		for _, port := range rule.Ports {
			open[port.Port.StrVal] = true
		}
	}
	for _, port := range p.container().Ports {
		if !open[port.Name] {
			t.Errorf("the network policy lets nobody to port %s", port.Name)
		}
	}
}

// TestChartMemory checks that Go's memory limit is nine tenths of that of the container, unless
// it is set, or there is no limit.
func TestChartMemory(t *testing.T) {
	for values, want := range map[string]string{
		"":                                              "2764MiB",
		"resources: {limits: {memory: 512Mi}}":          "460MiB",
		"resources: {limits: {memory: 1.5Gi}}":          "1382MiB",
		"resources: {limits: {memory: 4G}}":             "3433MiB",
		"resources: {limits: {memory: 1048576000}}":     "900MiB",
		"resources: {limits: {memory: \"1e9\"}}":        "858MiB",
		"resources: {limits: {memory: null}}":           "",
		"resources: {limits: {memory: 1Pi}}":            "",
		"extraEnv: [{name: GOMEMLIMIT, value: 900MiB}]": "900MiB",
	} {
		p, n := mustRender(t, values), 0
		for _, e := range p.container().Env {
			if e.Name == "GOMEMLIMIT" {
				n++
			}
		}
		if got := p.environment(t, "quorate-1")["GOMEMLIMIT"]; got != want || n > 1 {
			t.Errorf("%q: %q, set %d times; want %q", values, got, n, want)
		}
	}
}

// TestChartRefuses checks that the schema of the values refuses wrong values, before a pod
// could fail on them.
func TestChartRefuses(t *testing.T) {
	for _, values := range []string{
		"replica: 3", "replicas: 0", "cluster: \"-\"", "linger: 5", "tls: {mode: on}", "tls: {mode: \"off\", secretName: \"\"}",
		"settings: {cluster: other}", "settings: {tls: {mode: off}}", "settings: {linger: 1s}", "ports: {http: 80}", "persistence: {accessModes: [ReadWriteMany]}",
		"image: {digest: sha256:abc}", "podDisruptionBudget: {maxUnavailable: 0}", "probes: {readiness: {path: /}}", "serviceMonitor: {enabled: \"yes\"}",
	} {
		if _, err := render(t, values); err == nil {
			t.Errorf("%s is taken", values)
		}
	}
}

// TestChartNotes checks that the notes print the right commands.
func TestChartNotes(t *testing.T) {
	p := mustRender(t, "")
	for _, want := range []string{
		"quorate init --data ./ca --cluster prod",
		"create secret generic quorate-ca --from-file=ca.crt=ca/pki/ca.crt --from-file=ca.key=ca/pki/ca.key",
		"quorate cluster status --addr 127.0.0.1:7412 --tls-dir ca/admin", "quorate-nodes.limits.svc:7412", "set bootstrap: false",
	} {
		if !strings.Contains(p.notes, want) {
			t.Errorf("the notes have no %q:\n%s", want, p.notes)
		}
	}
	if plain := mustRender(t, "{tls: {mode: \"off\"}}"); strings.Contains(plain.notes, "ca/") || strings.Contains(plain.notes, "bootstrap") {
		t.Errorf("notes of a cluster without TLS:\n%s", plain.notes)
	}
}
