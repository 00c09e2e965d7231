package security

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/cli/accounts"
	"github.com/quorate/quorate/internal/cli/cluster"
	"github.com/quorate/quorate/internal/cli/exit"
	"github.com/quorate/quorate/internal/cli/remote"
	"github.com/quorate/quorate/internal/cli/render"
	"github.com/quorate/quorate/internal/cli/server"
	"github.com/quorate/quorate/internal/cli/usage"
	"github.com/quorate/quorate/internal/phrase"
	"github.com/quorate/quorate/internal/pki"
	"github.com/quorate/quorate/internal/syncdir"
)

// NewCACommand returns "quorate ca".
func NewCACommand() *cobra.Command {
	return usage.Group("ca", "Show and replace the certificate authority",
		`Show and replace the cluster's certificate authority. It signs the certificates
of nodes, which renew themselves, and those of clients.`,
		newCAStatusCommand(), newCARotateCommand())
}

func newCAStatusCommand() *cobra.Command {
	var t remote.Targets
	var output render.Output
	var trustOut string
	cmd := &cobra.Command{
		Use:     "status",
		Aliases: []string{"show", "get", "describe"},
		Short:   "Print the signing authority and the phase of a rotation",
		Long: `Print the SHA-256 of the certificate that signs, and the phase of a rotation:

  steady      no rotation
  trusting    waits until every node trusts the new authority
  trusted     make clients trust it: --trust-out writes their ca.crt;
              then "ca rotate" again
  signing     it signs; waits until every node has a new certificate
  finishing   issue new certificates to clients; then "ca rotate --finish"

In the last two phases, the identities seen with a certificate of the old
authority are printed too.`,
		Example: `  quorate ca status
  quorate ca status --trust-out ca.crt`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			res, silent, err := askAuthority(cmd.Context(), &t, accounts.Identity{})
			if err != nil {
				return err
			}
			return printAuthority(cmd, &output, trustOut, res, func(p *render.Page) { printSeen(p, res, silent) })
		},
	}
	t.AddFlags(cmd)
	cmd.Flags().StringVar(&trustOut, "trust-out", "", "write the trusted authorities to this `file`: the ca.crt of clients")
	output.AddFlags(cmd, "text", "json")
	return cmd
}

func newCARotateCommand() *cobra.Command {
	var t remote.Targets
	var who accounts.Identity
	var finish, yes bool
	var output render.Output
	cmd := &cobra.Command{
		Use:   "rotate",
		Short: "Replace the certificate authority, without downtime",
		Long: `Replace the authority in three calls; "quorate ca status" shows the next step.

The first call creates the new authority, and all nodes trust it too. Make your
clients trust it as well ("quorate ca status --trust-out ca.crt"; the command
itself replaces the ca.crt in --tls-dir). With the second call, the new
authority signs, and all nodes get new certificates. Issue new certificates to
your clients ("quorate cert issue --replace"). The third, with --finish, ends
the trust in the old authority: certificates that it signed are no longer
accepted. It lists the identities seen with an old certificate since the nodes
started, when and at which node, and asks for confirmation unless --yes is
given. It is refused while your own certificate is an old one. A call that comes
too early changes nothing.`,
		Example: `  quorate ca rotate
  quorate ca rotate --finish`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if finish {
				if err := confirmFinish(cmd, &t, who, yes); err != nil {
					return err
				}
			}
			return rotate(cmd, &t, who, &output, &quoratev1.RotateAuthorityRequest{Finish: finish})
		},
	}
	t.AddFlags(cmd)
	who.AddFlags(cmd)
	cmd.Flags().BoolVar(&finish, "finish", false, "end the trust in the old authority")
	render.YesFlag(cmd, &yes)
	output.AddFlags(cmd, "text", "json")
	return cmd
}

func rotate(cmd *cobra.Command, t *remote.Targets, who accounts.Identity, output *render.Output, req *quoratev1.RotateAuthorityRequest) error {
	res, err := cluster.CallCluster(cmd.Context(), t, who, quoratev1.ClusterServiceClient.RotateAuthority, req)
	if err != nil {
		return err
	}
	trustOut := ""
	if dir, _ := t.TLSDirectory(); dir != "" {
		trustOut = filepath.Join(dir, server.TrustFile)
	}
	return printAuthority(cmd, output, trustOut, res, func(*render.Page) {})
}

// printAuthority prints the progress of a rotation, and calls more for pages. It writes the trusted
// certificates to trustOut unless that is empty.
func printAuthority(cmd *cobra.Command, output *render.Output, trustOut string, res *quoratev1.RotateAuthorityResponse, more func(*render.Page)) error {
	if trustOut != "" {
		if err := syncdir.WriteFile(trustOut, res.Trust); err != nil {
			return err
		}
	}
	err := output.Print(cmd, res, func(p *render.Page) {
		fmt.Fprintf(p, "authority  %s\nrotation   %s\n", phrase.Show(res.Fingerprint), phrase.Show(res.Phase))
		if res.WaitsFor != "" {
			fmt.Fprintf(p, "waits for  %s\n", phrase.Printable(res.WaitsFor))
		}
		more(p)
	})
	if err != nil {
		return err
	}
	if n := res.LostJoinTokens; n > 0 {
		text := "join tokens that name the earlier authority no longer work"
		if res.Phase == "trusting" || res.Phase == "trusted" {
			text = "join tokens that name this authority stop working when the next one signs; create new ones then"
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "quorate: warning: %s (%d; \"quorate join-token list\" says which)\n", text, n)
	}
	return nil
}

// NewCertCommand returns "quorate cert".
func NewCertCommand() *cobra.Command {
	return usage.Group("cert", "Issue client certificates", `Issue certificates to clients of a cluster with its own authority.`, newCertIssueCommand())
}

// certFlags holds the flags of cert issue.
type certFlags struct {
	remote.Targets
	who       accounts.Identity
	name, out string
	ttl       time.Duration
	replace   bool
}

func newCertIssueCommand() *cobra.Command {
	var o certFlags
	cmd := &cobra.Command{
		Use:   "issue --name NAME --out DIR",
		Short: "Issue a key and a certificate for a client",
		Long: `Generate a key, let the cluster sign a certificate for it, and write both to a
directory: ca.crt, client.crt and client.key, each readable only by its owner.
The key never leaves this machine. The client's identity is client:NAME; bind
roles to it. The client uses --tls-dir DIR.`,
		Example: `  quorate cert issue --name shop --out ./shop
  quorate cert issue --name ci --out ./ci --ttl 24h --replace`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd)
		},
	}
	o.Targets.AddFlags(cmd)
	o.who.AddFlags(cmd)
	cmd.Flags().StringVar(&o.name, "name", "", "the client's `name`")
	cmd.Flags().StringVar(&o.out, "out", "", "output `directory`; created if missing")
	render.LifetimeFlag(cmd, &o.ttl, "ttl", 90*24*time.Hour, "how long the certificate is valid, 1m to 366d")
	cmd.Flags().BoolVar(&o.replace, "replace", false, "replace existing files, to renew a certificate")
	return cmd
}

func (o *certFlags) run(cmd *cobra.Command) error {
	switch {
	case o.name == "":
		return exit.Usagef("--name is missing; give the client's name, such as shop")
	case o.out == "":
		return exit.Usagef("--out is missing; choose the output directory")
	}
	for _, name := range []string{server.TrustFile, server.ClientFile, server.ClientKeyFile} {
		if _, err := os.Stat(filepath.Join(o.out, name)); !o.replace && !errors.Is(err, fs.ErrNotExist) {
			return exit.Usagef("--out %s: has %s already; choose another directory, or --replace it", o.out, name)
		}
	}
	st, err := cluster.GetStatus(cmd.Context(), &o.Targets)
	if err != nil {
		return err
	}
	key, csr, err := pki.NewKeyAndCSR(pki.Identity{Cluster: st.Cluster, Kind: pki.Client, Name: o.name}, nil)
	if err != nil {
		return exit.Usagef("--name %q: %w", o.name, err)
	}
	res, err := cluster.CallCluster(cmd.Context(), &o.Targets, o.who, quoratev1.ClusterServiceClient.IssueCertificate, &quoratev1.IssueCertificateRequest{Csr: csr, Name: o.name, Ttl: durationpb.New(o.ttl)})
	if err != nil {
		return err
	}
	if err := o.write(res, key); err != nil {
		return err
	}
	until := ""
	if certs, err := pki.ParseCertificates(res.Certificate); err == nil && len(certs) > 0 {
		until = ", valid until " + certs[0].NotAfter.UTC().Format(time.RFC3339)
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "client:%s: certificate and key are in %s%s\n", phrase.Show(o.name), o.out, until)
	return err
}

// write writes the files, each whole or not at all.
func (o *certFlags) write(res *quoratev1.IssueCertificateResponse, key pki.KeyPEM) error {
	if err := os.MkdirAll(o.out, 0o700); err != nil {
		return err
	}
	for _, f := range []struct {
		name string
		data []byte
	}{{server.ClientKeyFile, key}, {server.ClientFile, res.Certificate}, {server.TrustFile, res.Trust}} {
		if err := syncdir.WriteFile(filepath.Join(o.out, f.name), f.data); err != nil {
			return err
		}
	}
	return nil
}
