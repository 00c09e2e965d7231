package accounts

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/client"
)

// DefaultTimeout bounds a call whose context has no deadline: enough for a leader
// to be elected.
const DefaultTimeout = 10 * time.Second

// Options are those of an application.
type Options struct {
	// ResourceTypes are all that the application counts, as ASIs. A policy and the
	// accounts that it is for have the same.
	ResourceTypes []string
	// Timeout bounds a call whose context has no deadline; 0 is DefaultTimeout.
	Timeout time.Duration
}

// Application is a handle for one application's accounts and policies.
type Application struct {
	id      string
	types   []string
	timeout time.Duration
	conns   []*grpc.ClientConn
	current atomic.Uint32 // index of the node that is asked first
	pause   func(ctx context.Context, round int) error
}

// Register returns a handle that uses the connections of a client; with the client
// it ends. It sends nothing: an application needs no registration in the cluster.
// appID is 1 to 256 bytes of UTF-8 without "~" and control characters.
func Register(c *client.Client, appID string, o Options) *Application {
	a := &Application{id: appID, types: slices.Clone(o.ResourceTypes), timeout: o.Timeout, conns: c.Conns(), pause: pause}
	if a.timeout <= 0 {
		a.timeout = DefaultTimeout
	}
	return a
}

// AccountID returns the id of an account of the application. Set its Identity
// where the account is somebody's. It panics if the type is not among
// Options.ResourceTypes: a type is a constant of the program.
func (a *Application) AccountID(realm, namespace, name, resourceType string) *quoratev1.AccountID {
	a.mustHave(resourceType)
	return &quoratev1.AccountID{AppId: a.id, Realm: realm, Namespace: namespace, Name: name, ResourceType: resourceType}
}

// PolicyID returns the id of a policy in a config, as LoadPoliciesAuto and
// LoadPoliciesManual return it. It panics as AccountID does.
func (a *Application) PolicyID(config *quoratev1.PolicyConfigID, namespace, name, resourceType string) *quoratev1.PolicyID {
	a.mustHave(resourceType)
	return &quoratev1.PolicyID{
		Config: config, Key: &quoratev1.PolicyKey{Namespace: namespace, Name: name, ResourceType: resourceType},
	}
}

func (a *Application) mustHave(resourceType string) {
	if !slices.Contains(a.types, resourceType) {
		// invariant: a program uses the types that it has registered.
		panic(fmt.Sprintf("accounts: resource type %q is not registered for application %q; registered are %q", resourceType, a.id, a.types))
	}
}

// LoadPoliciesAuto makes sure that the config is stored in a realm, under a
// version that is a hash of its content, and returns its id. It changes nothing if
// it is there, so call it whenever the application starts. All nodes know the
// policies with the next call. A config has 1 to 10000 policies and about 4 MB.
func (a *Application) LoadPoliciesAuto(ctx context.Context, realm string, cfg *quoratev1.PolicyConfig) (*quoratev1.PolicyConfigID, error) {
	return a.load(ctx, realm, "", cfg)
}

// LoadPoliciesManual is LoadPoliciesAuto under a version of your own: not empty,
// and without "$" and "~". If there is a config of that version it returns at once,
// without looking at the content: never use a version for other policies.
func (a *Application) LoadPoliciesManual(ctx context.Context, realm, version string, cfg *quoratev1.PolicyConfig) (*quoratev1.PolicyConfigID, error) {
	if version == "" || strings.ContainsAny(version, "$~") {
		return nil, invalid("version", "%q; must have something, and neither \"$\" nor \"~\"", version)
	}
	return a.load(ctx, realm, version, cfg)
}

func (a *Application) load(ctx context.Context, realm, version string, cfg *quoratev1.PolicyConfig) (*quoratev1.PolicyConfigID, error) {
	for i, p := range cfg.GetPolicies() {
		if t := p.GetKey().GetResourceType(); !slices.Contains(a.types, t) {
			return nil, invalid(fmt.Sprintf("config.policies[%d].key.resource_type", i), "%q is not registered for application %q; registered are %q", t, a.id, a.types)
		}
	}
	req := &quoratev1.LoadPoliciesRequest{AppId: a.id, Realm: realm, Version: version, Config: cfg}
	var res *quoratev1.LoadPoliciesResponse
	err := a.ask(ctx, true, func(ctx context.Context, s quoratev1.AccountServiceClient) (err error) {
		res, err = s.LoadPolicies(ctx, req)
		return err
	})
	return res.GetId(), err
}

// ApplyOps applies 1 to 1000 operations in their order: all of them, or none. When
// one fails the error is an *ApplyError, and the response has the result of each.
//
// requestID, at most 256 bytes, makes the call safe to repeat, by this package and
// by yourself: once it has been applied, the same call is answered with the same
// results and applied no more, for ttl (0 is 2 hours, at most 31 days). Make it out
// of what the operations are for. A call that failed may be made again. The same
// id with other operations is ErrMismatch. An empty one makes every call another
// one, and the client does not repeat it.
func (a *Application) ApplyOps(ctx context.Context, requestID string, ttl time.Duration, ops []*quoratev1.Op) (*quoratev1.ApplyOpsResponse, error) {
	req := &quoratev1.ApplyOpsRequest{RequestId: requestID, Ops: ops}
	if ttl != 0 {
		req.RequestIdTtl = durationpb.New(ttl)
	}
	var res *quoratev1.ApplyOpsResponse
	err := a.ask(ctx, requestID != "", func(ctx context.Context, s quoratev1.AccountServiceClient) (err error) {
		res, err = s.ApplyOps(ctx, req)
		return err
	})
	if err != nil {
		return nil, err
	}
	if !res.GetApplied() {
		return res, &ApplyError{Ops: ops, Results: res.GetResults()}
	}
	return res, nil
}

// GetAccounts returns 1 to 1000 accounts as they are at one moment after the call
// was made, in the order of the ids, with the balances that refill makes of them
// now. It changes nothing. Account is not set of an account that does not exist.
func (a *Application) GetAccounts(ctx context.Context, ids []*quoratev1.AccountID) (*quoratev1.GetAccountsResponse, error) {
	return a.get(ctx, &quoratev1.GetAccountsRequest{Accounts: ids})
}

// GetAccountsStale is GetAccounts from the replicas nearest to the node that is
// asked. It needs no leader, and may tell of the past, a second or so ago.
func (a *Application) GetAccountsStale(ctx context.Context, ids []*quoratev1.AccountID) (*quoratev1.GetAccountsResponse, error) {
	return a.get(ctx, &quoratev1.GetAccountsRequest{Accounts: ids, Stale: true})
}

func (a *Application) get(ctx context.Context, req *quoratev1.GetAccountsRequest) (*quoratev1.GetAccountsResponse, error) {
	var res *quoratev1.GetAccountsResponse
	err := a.ask(ctx, true, func(ctx context.Context, s quoratev1.AccountServiceClient) (err error) {
		res, err = s.GetAccounts(ctx, req)
		return err
	})
	return res, err
}
