package limits

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/config"
	"github.com/quorate/quorate/internal/apiproto"
	"github.com/quorate/quorate/internal/cli/build"
	"github.com/quorate/quorate/internal/cli/exit"
	"github.com/quorate/quorate/internal/cli/remote"
	"github.com/quorate/quorate/internal/cli/render"
	"github.com/quorate/quorate/internal/cli/usage"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/suggest"
)

// NewCommand returns "quorate limits".
func NewCommand() *cobra.Command {
	return usage.Group("limits", "Read and change the cluster's limits",
		`Read and change the cluster's limits. Every change makes a new version, and all
versions are kept, with author, time, comment and changes. No change refills a
bucket.`,
		newLimitsGetCommand(), newLimitsApplyCommand(), newLimitsDiffCommand(), newLimitsValidateCommand(),
		newLimitsExplainCommand(), newLimitsHistoryCommand(), newLimitsRollbackCommand(), newLimitsDeleteCommand())
}

// callLimits calls LimitService.
func callLimits[Request, Response any](ctx context.Context, t *remote.Targets, method remote.Method[quoratev1.LimitServiceClient, Request, Response], req *Request) (*Response, error) {
	return remote.Invoke(ctx, t, quoratev1.NewLimitServiceClient, method, req)
}

// GetLimits returns the current limits, also as a file, or those of a version.
func GetLimits(ctx context.Context, t *remote.Targets, version *uint64) (*quoratev1.GetLimitsResponse, error) {
	res, err := callLimits(ctx, t, quoratev1.LimitServiceClient.GetLimits, &quoratev1.GetLimitsRequest{Version: version, File: true})
	return res, err
}

// ParseAnswer converts the limits from a node.
func ParseAnswer(res *quoratev1.GetLimitsResponse) ([]quota.Limit, error) {
	list, err := config.ParseLimits("answer of the cluster", []byte(res.Yaml))
	if err != nil {
		return nil, exit.Errorf(exit.Fault, "%w\nThe cluster may run a newer version than this command, which is %s", err, build.Version)
	}
	return list, nil
}

// ReadInput reads a file, or standard input for "-".
func ReadInput(path string, stdin io.Reader, most int) ([]byte, error) {
	in := stdin
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, exit.Invalid(err)
		}
		defer f.Close() //nolint:errcheck // read only
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, int64(most)+1))
	if err == nil && len(data) > most {
		err = fmt.Errorf("%s: is larger than %d bytes, the most that such a file may have", path, most)
	}
	return data, exit.Invalid(err)
}

// ApplyLimits replaces the limits of the cluster.
func ApplyLimits(ctx context.Context, t *remote.Targets, path string, stdin io.Reader) (*quoratev1.ApplyLimitsResponse, error) {
	data, err := ReadInput(path, stdin, apiproto.MaxLimitsFile)
	if err != nil {
		return nil, err
	}
	return applyText(ctx, t, &quoratev1.ApplyLimitsRequest{Yaml: string(data), Source: path})
}

func applyText(ctx context.Context, t *remote.Targets, req *quoratev1.ApplyLimitsRequest) (*quoratev1.ApplyLimitsResponse, error) {
	res, err := callLimits(ctx, t, quoratev1.LimitServiceClient.ApplyLimits, req)
	return res, err
}

// parseName parses namespace/limit, where the limit may be @default or @template.
func parseName(s string) (quota.LimitName, error) {
	namespace, limit, ok := strings.Cut(s, "/")
	n := quota.LimitName{Namespace: namespace, Limit: limit}
	if n == quota.Global {
		return n, nil
	}
	err := quota.CheckName("namespace", namespace)
	if err == nil && limit != quota.Default && limit != quota.Template {
		err = quota.CheckName("limit", limit)
	}
	if !ok {
		return n, exit.Usagef("limit %q: write it as namespace/limit, such as web/per_client", s)
	}
	if err != nil {
		return n, exit.Usagef("limit %q: %w", s, err)
	}
	return n, nil
}

// ParseRecorded parses a name in the history: of a limit, or of a policy of accounts.
func ParseRecorded(s string) (quota.LimitName, error) {
	if !strings.HasPrefix(s, quota.AccountNamespace+"/") {
		return parseName(s)
	}
	n, err := quota.ParseRecorded(s)
	if err != nil {
		return n, exit.Usagef("%w", err)
	}
	return n, nil
}

// ParseRecordedScope parses a namespace or a name in the history.
func ParseRecordedScope(s string) (namespace, limit string, err error) {
	if s == quota.AccountNamespace {
		return s, "", nil
	}
	if strings.HasPrefix(s, quota.AccountNamespace+"/") {
		n, err := ParseRecorded(s)
		return n.Namespace, n.Limit, err
	}
	return ParseScope(s)
}

// ParseScope parses a namespace, or namespace/limit. The empty text means all.
func ParseScope(s string) (namespace, limit string, err error) {
	if strings.Contains(s, "/") {
		n, err := parseName(s)
		return n.Namespace, n.Limit, err
	}
	if s != "" && s != quota.Global.Namespace {
		if err := quota.CheckName("namespace", s); err != nil {
			return "", "", exit.Usagef("%q: %w; write a namespace, or namespace/limit", s, err)
		}
	}
	return s, "", nil
}

// choice holds the limits that a command line names, by namespace or individually.
type choice []string

func (c choice) check() error {
	for _, s := range c {
		if _, _, err := ParseScope(s); err != nil {
			return err
		}
	}
	return nil
}

func (c choice) has(namespace, limit string) bool {
	return len(c) == 0 || slices.Contains(c, namespace) || slices.Contains(c, namespace+"/"+limit)
}

// missing returns an error for names that match no limit.
func (c choice) missing(limits []*quoratev1.Limit) error {
	for _, s := range c {
		one := choice{s}
		if !slices.ContainsFunc(limits, func(l *quoratev1.Limit) bool { return one.has(l.Namespace, l.Name) }) {
			return exit.NotFoundf("unknown limit or namespace %s;%s \"quorate limits get\" lists all", s, suggest.DidYouMean(s, scopes(limits), ""))
		}
	}
	return nil
}

// scopes returns the namespace and the full name of each limit.
func scopes(limits []*quoratev1.Limit) (out []string) {
	for _, l := range limits {
		out = append(out, l.Namespace, l.Namespace+"/"+l.Name)
	}
	return out
}

// CheckScope returns an error if a namespace, or namespace/limit, matches no active limit. Commands
// call it when they found nothing. A caller who cannot read limits gets no error.
func CheckScope(ctx context.Context, t *remote.Targets, scope string) error {
	res, err := GetLimits(ctx, t, nil)
	if err != nil {
		if exit.CodeOf(err) == exit.Denied {
			return nil
		}
		return err
	}
	return choice{scope}.missing(res.Limits)
}

// ParseKey parses the two arguments that name a bucket.
func ParseKey(limit, key string) (quota.Key, error) {
	n, err := parseName(limit)
	if err != nil {
		return quota.Key{}, err
	}
	return keyOf(n, key)
}

// ParseCounter parses a bucket as ParseKey does, or that of an inline limit, as "quorate keys top" prints it.
func ParseCounter(limit, key string) (quota.Key, error) {
	namespace, name, _ := strings.Cut(limit, "/")
	n := quota.LimitName{Namespace: namespace, Limit: name}
	if _, err := n.Inline(); err != nil {
		return ParseKey(limit, key)
	}
	return keyOf(n, key)
}

func keyOf(n quota.LimitName, key string) (quota.Key, error) {
	if len(key) > quota.MaxKeyLen {
		return quota.Key{}, exit.Usagef("key: is %d bytes; at most %d", len(key), quota.MaxKeyLen)
	}
	if !utf8.ValidString(key) {
		return quota.Key{}, exit.Usagef("key: %q: must be UTF-8", key)
	}
	if key == "" {
		key = quota.WholeKey
	}
	return quota.Key{LimitName: n, Key: key}, nil
}

// RuleText formats a limit's rule: 10/s burst 20.
func RuleText(l *quoratev1.Limit) string {
	switch {
	case l.GetClass() == quoratev1.Class_CLASS_UNLIMITED || l.GetClass() == quoratev1.Class_CLASS_BANNED:
		return render.Word(l.Class)
	case l.GetKind() == quoratev1.Kind_KIND_CONCURRENCY:
		return fmt.Sprintf("%d in flight", l.InFlight)
	case l.GetKind() > quoratev1.Kind_KIND_BUCKET:
		return rateText(&quoratev1.Tier{Kind: l.Kind, Rate: l.Rate, Burst: l.Burst, Calendar: l.Calendar, Timezone: l.Timezone}) + " " + render.Word(l.Kind)
	}
	return fmt.Sprintf("%s burst %d", l.GetRate(), l.GetBurst())
}

// OverrideText formats what an override changes: rate 5/s until ....
func OverrideText(o *quoratev1.Override) string {
	s := ""
	add := func(name, value string) {
		if value != "" {
			s += name + value + " "
		}
	}
	switch o.Class {
	case quoratev1.Class_CLASS_UNLIMITED, quoratev1.Class_CLASS_BANNED:
		add("", render.Word(o.Class))
	}
	add("rate ", o.Rate)
	if o.Burst != nil {
		add("burst ", strconv.FormatInt(*o.Burst, 10))
	}
	if o.Scale > 0 {
		add("scale ", fmt.Sprintf("%gx", o.Scale))
	}
	if o.Expires != nil {
		add("until ", o.Expires.AsTime().UTC().Format(time.RFC3339))
	}
	return s[:max(len(s)-1, 0)]
}

// openInput opens a file that can be read twice. It copies standard input to a temporary file.
func openInput(path string, stdin io.Reader) (*os.File, func(), error) {
	if path != "-" {
		f, err := os.Open(path)
		return f, func() { _ = f.Close() }, err // read only
	}
	f, err := os.CreateTemp("", "quorate-overrides-")
	if err != nil {
		return nil, nil, err
	}
	done := func() {
		_ = f.Close() // a copy
		_ = os.Remove(f.Name())
	}
	if _, err := io.Copy(f, stdin); err != nil {
		done()
		return nil, nil, err
	}
	return f, done, nil
}
