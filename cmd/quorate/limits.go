package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	"github.com/quorate/quorate/api"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/config"
	"github.com/quorate/quorate/internal/quota"
)

func newLimitsCommand() *cobra.Command {
	return group("limits", "Read and change the cluster's limits",
		`Read and change the cluster's limits. Every change makes a new version, and all
versions are kept: with who made it, when, why, and what differs. No change
refills a bucket.`,
		newLimitsGetCommand(), newLimitsApplyCommand(), newLimitsDiffCommand(), newLimitsValidateCommand(),
		newLimitsExplainCommand(), newLimitsHistoryCommand(), newLimitsRollbackCommand(), newLimitsDeleteCommand())
}

// callLimits calls the service of limits.
func callLimits(ctx context.Context, t *targets, f func(context.Context, quoratev1.LimitServiceClient) error) error {
	return t.call(ctx, func(ctx context.Context, conn *grpc.ClientConn) error {
		return f(ctx, quoratev1.NewLimitServiceClient(conn))
	})
}

// getLimits returns the limits in force, as a file too, or those of a version.
func getLimits(ctx context.Context, t *targets, version *uint64) (*quoratev1.GetLimitsResponse, error) {
	var res *quoratev1.GetLimitsResponse
	err := callLimits(ctx, t, func(ctx context.Context, c quoratev1.LimitServiceClient) (err error) {
		res, err = c.GetLimits(ctx, &quoratev1.GetLimitsRequest{Version: version, File: true})
		return err
	})
	return res, err
}

// parseAnswer reads the limits that a node sent.
func parseAnswer(res *quoratev1.GetLimitsResponse) ([]quota.Limit, error) {
	list, err := config.ParseLimits("answer of the cluster", []byte(res.Yaml))
	if err != nil {
		return nil, &exitError{fmt.Errorf("%w\nThe cluster may run a newer version than this command, which is %s", err, version), exitFault}
	}
	return list, nil
}

// readInput reads a file, or standard input for "-".
func readInput(path string, stdin io.Reader, most int) ([]byte, error) {
	in := stdin
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, invalid(err)
		}
		defer f.Close() //nolint:errcheck // only read
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, int64(most)+1))
	if err == nil && len(data) > most {
		err = fmt.Errorf("%s: is larger than %d bytes, the most that such a file may have", path, most)
	}
	return data, invalid(err)
}

func applyLimits(ctx context.Context, t *targets, path string, stdin io.Reader) (*quoratev1.ApplyLimitsResponse, error) {
	data, err := readInput(path, stdin, api.MaxLimitsFile)
	if err != nil {
		return nil, err
	}
	return applyText(ctx, t, &quoratev1.ApplyLimitsRequest{Yaml: string(data), Source: path})
}

func applyText(ctx context.Context, t *targets, req *quoratev1.ApplyLimitsRequest) (*quoratev1.ApplyLimitsResponse, error) {
	var res *quoratev1.ApplyLimitsResponse
	err := callLimits(ctx, t, func(ctx context.Context, c quoratev1.LimitServiceClient) (err error) {
		res, err = c.ApplyLimits(ctx, req)
		return err
	})
	return res, err
}

// parseName reads namespace/limit, where the limit may be @default or @template.
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
		return n, usagef("limit %q: write it as namespace/limit, such as web/per_client", s)
	}
	if err != nil {
		return n, usagef("limit %q: %w", s, err)
	}
	return n, nil
}

// parseRecorded is parseName for what the history knows: also the policy of accounts.
func parseRecorded(s string) (quota.LimitName, error) {
	if !strings.HasPrefix(s, quota.AccountNamespace+"/") {
		return parseName(s)
	}
	n, err := quota.ParseRecorded(s)
	if err != nil {
		return n, usagef("%w", err)
	}
	return n, nil
}

// parseRecordedScope is parseScope for what the history knows.
func parseRecordedScope(s string) (namespace, limit string, err error) {
	if s == quota.AccountNamespace {
		return s, "", nil
	}
	if strings.HasPrefix(s, quota.AccountNamespace+"/") {
		n, err := parseRecorded(s)
		return n.Namespace, n.Limit, err
	}
	return parseScope(s)
}

// parseScope reads a namespace, or namespace/limit; nothing stands for all.
func parseScope(s string) (namespace, limit string, err error) {
	if strings.Contains(s, "/") {
		n, err := parseName(s)
		return n.Namespace, n.Limit, err
	}
	if s != "" && s != quota.Global.Namespace {
		if err := quota.CheckName("namespace", s); err != nil {
			return "", "", usagef("%q: %w; write a namespace, or namespace/limit", s, err)
		}
	}
	return s, "", nil
}

// choice are the limits that a command line names, by namespace or one by one.
type choice []string

func (c choice) check() error {
	for _, s := range c {
		if _, _, err := parseScope(s); err != nil {
			return err
		}
	}
	return nil
}

func (c choice) has(namespace, limit string) bool {
	return len(c) == 0 || slices.Contains(c, namespace) || slices.Contains(c, namespace+"/"+limit)
}

// missing returns an error for what names no limit.
func (c choice) missing(limits []*quoratev1.Limit) error {
	for _, s := range c {
		one := choice{s}
		if !slices.ContainsFunc(limits, func(l *quoratev1.Limit) bool { return one.has(l.Namespace, l.Name) }) {
			return notFoundf("%s: there is no such limit or namespace; \"quorate limits get\" lists all", s)
		}
	}
	return nil
}
