package accounts

import (
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/config"
	"github.com/quorate/quorate/internal/account"
	"github.com/quorate/quorate/internal/apiproto"
	"github.com/quorate/quorate/internal/cli/exit"
	"github.com/quorate/quorate/internal/cli/limits"
	"github.com/quorate/quorate/internal/cli/remote"
	"github.com/quorate/quorate/internal/cli/render"
	"github.com/quorate/quorate/internal/phrase"
)

// applyFlags holds the flags of "accounts apply" as typed.
type applyFlags struct {
	accountFlags
	policy, policyRealm, relativeTo string
	options                         []string
	delta                           int64
	requestID, file                 string
	ttl                             time.Duration
}

func newAccountsApplyCommand() *cobra.Command {
	var t remote.Targets
	var who Identity
	var a applyFlags
	var output render.Output
	cmd := &cobra.Command{
		Use:   "apply [ACCOUNT]",
		Short: "Apply operations to accounts: all of them, or none",
		Long: `Apply one operation to an account, or all operations of a file ("-": standard
input), all or none. An unknown account is created with the policy that the
operation sets; an existing account keeps its policy if none is given.

With --request-id, the operations are applied once, however often the command is
repeated within --ttl; it returns the first answer again. Without it, the
command generates an id, so that it can retry at another node; running the
command again is then a new request.

A policy is written version~namespace~name~type ("/" may stand for "~"), of the
account's app and realm unless --policy-realm is given.

Exit code 0 means applied, 1 not applied: the output says which operation failed
and why.`,
		Example: `  quorate accounts apply --app cv --realm project:infra --name alice --type builds --policy '$hash/ci/default/builds' --delta -1 --request-id build-17
  quorate accounts apply cv~project:infra~~~alice~builds --delta 5 --option ignore_policy_bounds
  quorate accounts apply cv~project:infra~~~alice~builds --relative-to limit
  quorate accounts apply --app cv --realm project:infra --file examples/accounts/ops.yaml`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			req, made, err := a.request(cmd, args)
			if err != nil {
				return err
			}
			res, err := callAdmin(cmd.Context(), &t, who, quoratev1.AccountAdminServiceClient.ApplyOps, req)
			if exit.CodeOf(err) == exit.Unreachable && made && !nothingDone(err) {
				return exit.Errorf(exit.Unreachable, "%w\nThe change may have been applied: repeat it with --request-id %s, and it is applied once", err, req.RequestId)
			}
			if err != nil {
				return err
			}
			return printOps(cmd, &output, req, res)
		},
	}
	t.AddFlags(cmd)
	who.AddFlags(cmd)
	a.accountFlags.addFlags(cmd)
	f := cmd.Flags()
	f.StringVar(&a.policy, "policy", "", "set this policy: version~namespace~name~type (default: what the account has)")
	f.StringVar(&a.policyRealm, "policy-realm", "", "realm of the policy's config (default: the account's)")
	f.Int64Var(&a.delta, "delta", 0, "units to add; below 0 to take")
	f.StringVar(&a.relativeTo, "relative-to", "current_balance", "what delta is added to: current_balance, zero, default, limit")
	render.CompleteWords(cmd, "relative-to", "current_balance", "zero", "default", "limit")
	f.StringSliceVar(&a.options, "option", nil, "ignore_policy_bounds, do_not_cap_proposed or with_policy_limit_delta")
	render.CompleteWords(cmd, "option", "ignore_policy_bounds", "do_not_cap_proposed", "with_policy_limit_delta")
	f.StringVar(&a.requestID, "request-id", "", "apply once under this name, at most 256 bytes (default: generated)")
	render.LifetimeFlag(cmd, &a.ttl, "ttl", 0, "how long the request id is remembered, 1s to 31d (default 2h)")
	f.StringVarP(&a.file, "file", "f", "", "apply the operations of this file")
	output.AddFlags(cmd, "table", "json")
	return cmd
}

// nothingDone reports whether a node's error says that it applied nothing.
func nothingDone(err error) bool {
	reason := remote.Reason(err)
	return reason == "ACCOUNTS_HELD" || reason == "OVERLOADED"
}

// request makes a request from arguments, flags and file; made reports that request generated its
// id.
func (a *applyFlags) request(cmd *cobra.Command, args []string) (req *quoratev1.ApplyOpsRequest, made bool, err error) {
	var ops config.Ops
	if a.file != "" {
		ops, err = a.fileOps(cmd, args)
	} else {
		ops.Ops, err = a.oneOp(cmd, args)
	}
	if err != nil {
		return nil, false, err
	}
	if err := a.name(cmd, &ops); err != nil {
		return nil, false, err
	}
	if made = ops.RequestID == ""; made {
		ops.RequestID = "cli-" + rand.Text()
	}
	req = &quoratev1.ApplyOpsRequest{RequestId: ops.RequestID}
	if ops.TTL > 0 {
		req.RequestIdTtl = durationpb.New(ops.TTL)
	}
	for _, op := range ops.Ops {
		req.Ops = append(req.Ops, &quoratev1.Op{
			AccountId: apiproto.AccountID(op.Account), PolicyId: apiproto.PolicyRef(op.Policy),
			RelativeTo: quoratev1.RelativeTo(op.RelativeTo), Delta: op.Delta, Options: uint32(op.Options),
		})
	}
	return req, made, nil
}

// name sets the request id and its lifetime from flags, unless the file has them.
func (a *applyFlags) name(cmd *cobra.Command, ops *config.Ops) error {
	switch {
	case a.requestID == "" && cmd.Flags().Changed("request-id"):
		return exit.Usagef("--request-id: is empty; give the request's own id, or leave the flag out: then one is generated")
	case len(a.requestID) > account.MaxRequestID:
		return exit.Usagef("--request-id: is %d bytes; at most %d", len(a.requestID), account.MaxRequestID)
	case a.requestID != "" && ops.RequestID != "":
		return exit.Usagef("--request-id %q: the file says %q; give one of them", a.requestID, ops.RequestID)
	case cmd.Flags().Changed("ttl") && (a.ttl < time.Second || a.ttl > account.MaxTTL):
		return exit.Usagef("--ttl %v: must be 1s to 31d", a.ttl)
	case a.requestID != "":
		ops.RequestID = a.requestID
	}
	if a.ttl > 0 {
		ops.TTL = a.ttl
	}
	return nil
}

func (a *applyFlags) fileOps(cmd *cobra.Command, args []string) (config.Ops, error) {
	for _, name := range append([]string{"policy", "policy-realm", "delta", "relative-to", "option"}, partFlags...) {
		if cmd.Flags().Changed(name) || len(args) > 0 {
			return config.Ops{}, exit.Usagef("--file: the operations are those of the file; leave the account and --%s out", name)
		}
	}
	data, err := limits.ReadInput(a.file, cmd.InOrStdin(), config.MaxFileBytes)
	if err != nil {
		return config.Ops{}, err
	}
	ops, err := config.ParseOps(a.file, data, a.near())
	return ops, exit.Invalid(err)
}

func (a *applyFlags) oneOp(cmd *cobra.Command, args []string) ([]account.Op, error) {
	ids, err := a.ids(cmd, args)
	if err != nil {
		return nil, err
	}
	op := account.Op{Account: ids[0], Delta: a.delta}
	if !cmd.Flags().Changed("delta") && !cmd.Flags().Changed("relative-to") && a.policy == "" {
		return nil, exit.Usagef("nothing to do: give --delta, --relative-to, --policy, or a --file")
	}
	if op.RelativeTo, err = config.ParseRelativeTo(a.relativeTo); err != nil {
		return nil, exit.Usagef("--relative-to: %w", err)
	}
	for _, word := range a.options {
		bit, err := config.OpOption(word)
		if err != nil {
			return nil, exit.Usagef("--option: %w", err)
		}
		op.Options |= bit
	}
	if a.policy == "" && a.policyRealm != "" {
		return nil, exit.Usagef("--policy-realm: is for --policy, which is missing")
	}
	if a.policy != "" {
		near := account.ConfigID{App: op.Account.App, Realm: op.Account.Realm}
		if a.policyRealm != "" {
			near.Realm = a.policyRealm
		}
		ref, err := config.ParsePolicyRef(a.policy, near)
		if err != nil {
			return nil, exit.Usagef("--policy: %w", err)
		}
		op.Policy = &ref
	}
	if err := op.Validate(); err != nil {
		return nil, exit.Usagef("--%w", flagWords(err))
	}
	return []account.Op{op}, nil
}

func printOps(cmd *cobra.Command, output *render.Output, req *quoratev1.ApplyOpsRequest, res *quoratev1.ApplyOpsResponse) error {
	if err := output.Print(cmd, res, func(p *render.Page) { p.Table(opsTable(req, res)) }); err != nil {
		return err
	}
	switch {
	case !res.Applied:
		fmt.Fprintln(cmd.ErrOrStderr(), "quorate: nothing was applied")
		return exit.AnswerNo()
	case res.Repeated:
		fmt.Fprintf(cmd.ErrOrStderr(), "quorate: request %s was applied before, at %s, and not again\n", phrase.Show(req.RequestId), render.When(res.OriginallySet))
	}
	return nil
}

func opsTable(req *quoratev1.ApplyOpsRequest, res *quoratev1.ApplyOpsResponse) *render.Table {
	t := render.NewTable("ACCOUNT", "BEFORE", "AFTER", "STATUS", "WHY")
	for i, r := range res.Results {
		if i >= len(req.Ops) {
			break
		}
		status := render.Word(r.Status)
		created := r.Status == quoratev1.OpStatus_OP_STATUS_SUCCESS && r.AccountStatus == quoratev1.AccountStatus_ACCOUNT_STATUS_CREATED
		if created {
			status = "created"
		}
		why := phrase.Printable(r.StatusMsg)
		if why == "" {
			why = "-"
		}
		t.Row(accountWord(req.Ops[i].AccountId), before(r.PreviousBalance, created), r.NewBalance, status, why)
	}
	return t
}

var errNoAccount = errors.New("unknown account")
