// Package contexts has the commands that name clusters, so that other commands need no addresses and
// credentials.
package contexts

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/internal/cli/exit"
	"github.com/quorate/quorate/internal/cli/remote"
	"github.com/quorate/quorate/internal/cli/render"
	"github.com/quorate/quorate/internal/cli/usage"
	"github.com/quorate/quorate/internal/phrase"
)

// NewCommand returns "quorate context".
func NewCommand() *cobra.Command {
	return usage.Group("context", "Manage contexts: named clusters with addresses and credentials",
		`A context is a name for a cluster: the addresses of its nodes, the directory
with TLS files, and the file with a bearer token. Commands use the current
context, or the one that --context or QUORATE_CONTEXT names.

The contexts are in QUORATE_CONFIG, by default quorate/config.yaml in the user's
configuration directory (~/.config on Linux).`,
		newListCommand(), newGetCommand(), newCurrentCommand(), newSetCommand(), newUseCommand(), newDeleteCommand())
}

// shown is a context as data.
type shown struct {
	*remote.Context
	Current bool `json:"current"`
}

func show(c *remote.Config, x *remote.Context) shown { return shown{x, x.Name == c.Current} }

func table(list []shown) *render.Table {
	t := render.NewTable("CURRENT", "NAME", "ADDRESSES", "TLS DIR", "TOKEN FILE")
	for _, x := range list {
		current := ""
		if x.Current {
			current = "*"
		}
		t.Row(current, phrase.Show(x.Name), strings.Join(x.Addresses, ","), render.NameOrNothing(x.TLSDir), render.NameOrNothing(x.TokenFile))
	}
	return t
}

func newListCommand() *cobra.Command {
	var output render.Output
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "Print all contexts",
		Long:    `Print all contexts; an asterisk marks the current one.`,
		Example: `  quorate context list`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := remote.ReadConfig()
			if err != nil {
				return err
			}
			list := []shown{}
			for i := range c.Contexts {
				list = append(list, show(c, &c.Contexts[i]))
			}
			return output.Print(cmd, list, func(p *render.Page) { p.TableOr(table(list), "no contexts") })
		},
	}
	output.AddFlags(cmd, "table", "json")
	return cmd
}

func newGetCommand() *cobra.Command {
	var output render.Output
	cmd := &cobra.Command{
		Use:     "get CONTEXT",
		Aliases: []string{"describe"},
		Short:   "Print one context",
		Long:    `Print one context. Exit code 5 means that the context is unknown.`,
		Example: `  quorate context get prod -o yaml`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := remote.ReadConfig()
			if err != nil {
				return err
			}
			x, err := find(c, args[0])
			if err != nil {
				return err
			}
			one := show(c, x)
			return output.Print(cmd, one, func(p *render.Page) { p.Table(table([]shown{one})) })
		},
	}
	output.AddFlags(cmd, "table", "json")
	return cmd
}

func newCurrentCommand() *cobra.Command {
	var output render.Output
	cmd := &cobra.Command{
		Use:   "current",
		Short: "Print the name of the current context",
		Long: `Print the name of the current context. Exit code 5 means that no context is
current.`,
		Example: `  quorate context current`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := remote.ReadConfig()
			if err != nil {
				return err
			}
			if c.Current == "" {
				return exit.Errorf(exit.NotFound, "no context is current; choose one with \"quorate context use NAME\"")
			}
			return output.Printf(cmd, show(c, c.Find(c.Current)), "%s", phrase.Show(c.Current))
		},
	}
	output.AddFlags(cmd, "text", "json")
	return cmd
}

func newSetCommand() *cobra.Command {
	var output render.Output
	var given remote.Context
	var use bool
	cmd := &cobra.Command{
		Use:   "set CONTEXT",
		Short: "Create or change a context",
		Long: `Create a context, or change an existing one; settings without a flag do not
change. The first context becomes the current one.`,
		Example: `  quorate context set prod --addr n1:7412,n2:7412,n3:7412 --tls-dir ~/quorate/prod
  quorate context set prod --token-file ~/quorate/prod.token --use`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return change(cmd, &output, func(c *remote.Config) (*remote.Context, error) {
				x := c.Find(args[0])
				if x == nil {
					c.Contexts = append(c.Contexts, remote.Context{Name: args[0]})
					x = &c.Contexts[len(c.Contexts)-1]
				}
				if cmd.Flags().Changed("addr") {
					x.Addresses = given.Addresses
				}
				for flag, path := range map[string]struct{ to, from *string }{"tls-dir": {&x.TLSDir, &given.TLSDir}, "token-file": {&x.TokenFile, &given.TokenFile}} {
					if !cmd.Flags().Changed(flag) {
						continue
					}
					if *path.to = *path.from; *path.to != "" {
						abs, err := filepath.Abs(*path.to)
						if err != nil {
							return nil, exit.Usagef("--%s: %v", flag, err)
						}
						*path.to = abs
					}
				}
				for _, a := range given.Addresses {
					if !remote.IsAddress(a) {
						return nil, exit.Usagef("--addr %q: must be host:port, such as 127.0.0.1:7412", a)
					}
				}
				if len(x.Addresses) == 0 {
					return nil, exit.Usagef("--addr is missing; give the gRPC addresses of the nodes, such as 127.0.0.1:7412")
				}
				if err := x.Validate(); err != nil {
					return nil, exit.Invalid(err)
				}
				if use || len(c.Contexts) == 1 {
					c.Current = x.Name
				}
				return x, nil
			})
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&given.Addresses, "addr", nil, "gRPC addresses of the nodes, host:port,...")
	f.StringVar(&given.TLSDir, "tls-dir", "", "`directory` with ca.crt and, for a certificate, client.crt and client.key; empty for none")
	f.StringVar(&given.TokenFile, "token-file", "", "`file` with a bearer token; empty for none")
	f.BoolVar(&use, "use", false, "make it the current context")
	output.AddFlags(cmd, "text", "json")
	return cmd
}

func newUseCommand() *cobra.Command {
	var output render.Output
	cmd := &cobra.Command{
		Use:     "use CONTEXT",
		Short:   "Make a context the current one",
		Long:    `Make a context the current one: commands without --context use it.`,
		Example: `  quorate context use prod`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return change(cmd, &output, func(c *remote.Config) (*remote.Context, error) {
				x, err := find(c, args[0])
				if err == nil {
					c.Current = x.Name
				}
				return x, err
			})
		},
	}
	output.AddFlags(cmd, "text", "json")
	return cmd
}

func newDeleteCommand() *cobra.Command {
	var output render.Output
	cmd := &cobra.Command{
		Use:   "delete CONTEXT",
		Short: "Delete a context",
		Long: `Delete a context. The files that it names are kept. If it was the current
context, no context is current.`,
		Example: `  quorate context delete old`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var gone shown
			err := remote.ChangeConfig(cmd.Context(), func(c *remote.Config) error {
				x, err := find(c, args[0])
				if err != nil {
					return err
				}
				if c.Current == x.Name {
					c.Current = ""
				}
				was := *x
				gone = show(c, &was)
				c.Contexts = slices.DeleteFunc(c.Contexts, func(x remote.Context) bool { return x.Name == args[0] })
				return nil
			})
			if err != nil {
				return err
			}
			return output.Printf(cmd, gone, "context %s deleted", phrase.Show(args[0]))
		},
	}
	output.AddFlags(cmd, "text", "json")
	return cmd
}

// find returns the context of that name, or an error that names those that there are.
func find(c *remote.Config, name string) (*remote.Context, error) {
	if x := c.Find(name); x != nil {
		return x, nil
	}
	return nil, c.Missing(name)
}

// change changes the contexts and prints the one that was changed.
func change(cmd *cobra.Command, output *render.Output, f func(*remote.Config) (*remote.Context, error)) error {
	var out shown
	err := remote.ChangeConfig(cmd.Context(), func(c *remote.Config) error {
		x, err := f(c)
		if err == nil {
			out = show(c, x)
		}
		return err
	})
	if err != nil {
		return err
	}
	current := ""
	if out.Current {
		current = ", the current context"
	}
	return output.Printf(cmd, out, "context %s: %s%s", phrase.Show(out.Name), strings.Join(out.Addresses, ","), current)
}
