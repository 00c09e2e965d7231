package security

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/cli/accounts"
	"github.com/quorate/quorate/internal/cli/cluster"
	"github.com/quorate/quorate/internal/cli/exit"
	"github.com/quorate/quorate/internal/cli/remote"
	"github.com/quorate/quorate/internal/cli/render"
	"github.com/quorate/quorate/internal/phrase"
	"github.com/quorate/quorate/internal/pki"
)

// maxShownSeen bounds the certificates in the output.
const maxShownSeen = 50

// askAuthority asks the cluster for the progress of a rotation, and every node for the certificates
// that it has seen. silent are the nodes that did not answer; err means that no node answered.
func askAuthority(ctx context.Context, t *remote.Targets, who accounts.Identity) (res *quoratev1.RotateAuthorityResponse, silent []string, err error) {
	req := &quoratev1.RotateAuthorityRequest{Ask: true}
	res, err = cluster.CallCluster(ctx, t, who, quoratev1.ClusterServiceClient.RotateAuthority, req)
	if err != nil || !rotating(res) {
		return res, nil, err
	}
	st, err := cluster.GetStatus(ctx, t)
	if err != nil {
		return nil, nil, err
	}
	if ctx, err = who.Named(ctx); err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, cluster.OthersTime)
	defer cancel()
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, a := range cluster.OtherAddresses(t, st) {
		wg.Go(func() {
			var other *quoratev1.RotateAuthorityResponse
			err := t.CallOne(ctx, a.Addr, func(ctx context.Context, conn *grpc.ClientConn) (err error) {
				other, err = quoratev1.NewClusterServiceClient(conn).RotateAuthority(ctx, req)
				return err
			})
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				silent = append(silent, fmt.Sprintf("%s (at %s: %s)", phrase.Show(a.Node), a.Addr, phrase.Printable(pki.ConnectionCause(status.Convert(err).Message()))))
			}
			res.Seen = append(res.Seen, other.GetSeen()...)
		})
	}
	wg.Wait()
	slices.Sort(silent)
	res.Seen = latest(res.Seen)
	return res, silent, nil
}

// rotating reports whether certificates of an earlier authority are still trusted.
func rotating(r *quoratev1.RotateAuthorityResponse) bool {
	return r.Phase == "signing" || r.Phase == "finishing"
}

// latest keeps the last sighting of each owner's certificate of each authority.
func latest(list []*quoratev1.SeenCertificate) []*quoratev1.SeenCertificate {
	slices.SortStableFunc(list, func(a, b *quoratev1.SeenCertificate) int {
		if c := strings.Compare(a.Identity+"\x00"+a.Authority, b.Identity+"\x00"+b.Authority); c != 0 {
			return c
		}
		return b.At.AsTime().Compare(a.At.AsTime())
	})
	return slices.CompactFunc(list, func(a, b *quoratev1.SeenCertificate) bool {
		return a.Identity == b.Identity && a.Authority == b.Authority
	})
}

// ofEarlier returns the certificates of an earlier authority. renewed holds those of their owners
// that have since been seen with a newer one; these come last.
func ofEarlier(r *quoratev1.RotateAuthorityResponse) (out []*quoratev1.SeenCertificate, renewed map[string]bool) {
	renewed = map[string]bool{}
	for _, s := range r.Seen {
		if s.Authority == r.Fingerprint {
			continue
		}
		out = append(out, s)
		renewed[s.Identity] = slices.ContainsFunc(r.Seen, func(o *quoratev1.SeenCertificate) bool {
			return o.Identity == s.Identity && o.Authority == r.Fingerprint && o.At.AsTime().After(s.At.AsTime())
		})
	}
	slices.SortStableFunc(out, func(a, b *quoratev1.SeenCertificate) int {
		switch ra, rb := renewed[a.Identity], renewed[b.Identity]; {
		case ra == rb:
			return 0
		case ra:
			return 1
		}
		return -1
	})
	return out, renewed
}

// printSeen prints the callers that lose access when the earlier authority is no longer trusted.
func printSeen(w *render.Page, r *quoratev1.RotateAuthorityResponse, silent []string) {
	if !rotating(r) {
		return
	}
	list, renewed := ofEarlier(r)
	if len(list) == 0 {
		fmt.Fprintln(w, "no node has seen a certificate of the earlier authority since it started")
	} else {
		fmt.Fprintln(w, "seen with a certificate of the earlier authority, which is not accepted after \"ca rotate --finish\":")
		rows := render.NewTable("IDENTITY", "LAST SEEN", "BY", "WITH A NEW ONE SINCE")
		for _, s := range list[:min(len(list), maxShownSeen)] {
			rows.Row(render.Name(s.Identity), lastSeen(s), render.NameOrNothing(s.Node), map[bool]string{true: "yes", false: "not seen"}[renewed[s.Identity]])
		}
		w.Table(rows)
		if more := len(list) - maxShownSeen; more > 0 {
			fmt.Fprintf(w, "and %d more\n", more)
		}
	}
	for _, s := range silent {
		fmt.Fprintf(w, "no answer from %s\n", s)
	}
}

func lastSeen(s *quoratev1.SeenCertificate) string {
	if s.At == nil {
		return "is dead"
	}
	return render.Span(max(0, time.Since(s.At.AsTime())).Round(time.Second)) + " ago"
}

// confirmFinish prints the callers that lose access when trust in the earlier authority ends, and
// asks. It refuses if the caller itself is one, because it could not undo this afterwards.
func confirmFinish(cmd *cobra.Command, t *remote.Targets, who accounts.Identity, yes bool) error {
	res, silent, err := askAuthority(cmd.Context(), t, who)
	if err != nil {
		return err
	}
	if res.Phase == "finishing" {
		if err := ownIsEarlier(t, res); err != nil {
			return err
		}
		err := render.WritePage(cmd.ErrOrStderr(), func(p *render.Page) { printSeen(p, res, silent) })
		if err != nil {
			return err
		}
	}
	return render.Confirm(cmd, yes, "End the trust in the earlier authority? Clients whose certificates it signed are refused.")
}

func ownIsEarlier(t *remote.Targets, res *quoratev1.RotateAuthorityResponse) error {
	if file, _ := t.BearerFile(); file != "" {
		return nil
	}
	store, err := t.OpenCredentials()
	if store == nil {
		return err
	}
	dir, _ := t.TLSDirectory()
	if st := store.Status(); st.Issuer != (pki.Hash{}) && st.Issuer.String() != res.Fingerprint {
		return exit.Usagef("--finish: your own certificate, in %s, is of the earlier authority, and would be refused too; renew it first: quorate cert issue --name %s --out %s --replace", dir, st.Identity.Name, dir)
	}
	return nil
}
