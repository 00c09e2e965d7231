package accounts

import (
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/cli/exit"
	"github.com/quorate/quorate/internal/cli/remote"
	"github.com/quorate/quorate/internal/cli/render"
)

func newAccountsRealmsCommand() *cobra.Command {
	var t remote.Targets
	var who Identity
	var output render.Output
	var most int
	cmd := &cobra.Command{
		Use:   "realms",
		Short: "Print the realms that have accounts or policies",
		Long: `Print the realms that have accounts or policy configs, for all applications, in
order: whether each has accounts, and how many policy configs. Realms where the
author may list neither are left out. The first 100 are printed unless --max is
given (0: all).`,
		Example: `  quorate accounts realms
  quorate accounts realms --max 0 -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if most < 0 {
				return exit.Usagef("--max %d: must be 0 (all) or more", most)
			}
			return listRealms(cmd, &t, who, most, &output)
		},
	}
	t.AddFlags(cmd)
	who.AddFlags(cmd)
	cmd.Flags().IntVar(&most, "max", accountsShown, "how many to print; 0 is all")
	output.AddFlags(cmd, "table", "json")
	return cmd
}

// listRealms fetches and prints realms page by page.
func listRealms(cmd *cobra.Command, t *remote.Targets, who Identity, most int, output *render.Output) error {
	defer t.ReuseConns()()
	tbl := render.NewTable("APP", "REALM", "ACCOUNTS", "POLICY CONFIGS")
	req := &quoratev1.ListRealmsRequest{}
	return printPages(cmd, output.List(cmd, "realms", "no realms with accounts or policies", tbl), most, func(size int32) ([]proto.Message, string, error) {
		req.PageSize = size
		res, err := callAdmin(cmd.Context(), t, who, quoratev1.AccountAdminServiceClient.ListRealms, req)
		if err != nil {
			return nil, "", err
		}
		req.PageToken = res.NextPageToken
		var out []proto.Message
		for _, r := range res.Realms {
			out = append(out, r)
			has := "no"
			if r.HasAccounts {
				has = "yes"
			}
			tbl.Row(render.Name(r.AppId), render.Name(r.Realm), has, r.PolicyConfigs)
		}
		return out, res.NextPageToken, nil
	})
}
