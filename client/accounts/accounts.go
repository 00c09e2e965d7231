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

// DefaultTimeout bounds a call whose context has no deadline. It is long enough for the election of
// a leader.
const DefaultTimeout = 10 * time.Second

// Options configures an application.
type Options struct {
	// ResourceTypes are all resource types of the application. A policy and its accounts have the
	// same type.
	ResourceTypes []string
	// Timeout bounds a call whose context has no deadline; 0 means DefaultTimeout.
	Timeout time.Duration
}

// Application is a handle for the accounts and policies of one application.
type Application struct {
	id      string
	types   []string
	timeout time.Duration
	conns   func() []*grpc.ClientConn // to the nodes that the client knows now
	current atomic.Uint32             // index of the node to ask first
	pause   func(ctx context.Context, round int) error
}

// Register returns a handle that uses the connections of a client to the nodes that it knows, until it is closed. It
// sends nothing: an application needs no registration in the cluster. appID is 1 to 256 bytes of UTF-8
// without "~" and control characters.
func Register(c *client.Client, appID string, o Options) *Application {
	a := &Application{id: appID, types: slices.Clone(o.ResourceTypes), timeout: o.Timeout, conns: c.Conns, pause: pause}
	if a.timeout <= 0 {
		a.timeout = DefaultTimeout
	}
	return a
}

// AccountID returns the ID of an account of the application. Set its Identity if the account
// belongs to one. It panics if the type is not among Options.ResourceTypes, because types are
// constants of the program.
func (a *Application) AccountID(realm, namespace, name, resourceType string) *quoratev1.AccountID {
	a.mustHave(resourceType)
	return &quoratev1.AccountID{AppId: a.id, Realm: realm, Namespace: namespace, Name: name, ResourceType: resourceType}
}

// PolicyID returns the ID of a policy in a config that LoadPoliciesAuto or LoadPoliciesManual
// returned. It panics as AccountID does.
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

// LoadPoliciesAuto ensures that the config is stored in a realm, under a version that is a hash of
// its content, and returns its ID. It changes nothing if the config exists, so call it whenever the
// application starts. All nodes know the policies from the next call on. A config has 1 to 10000
// policies and about 4 MB.
func (a *Application) LoadPoliciesAuto(ctx context.Context, realm string, cfg *quoratev1.PolicyConfig) (*quoratev1.PolicyConfigID, error) {
	return a.load(ctx, realm, "", cfg)
}

// LoadPoliciesManual is LoadPoliciesAuto with a version of your own: not empty, and without "$" and
// "~". If a config of that version exists it returns at once, without comparing the content: never
// reuse a version for other policies.
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

// ApplyOps applies 1 to 1000 operations in order: all of them, or none. If one fails the error is
// an *ApplyError, and the response has the result of each.
//
// requestID, at most 256 bytes, makes the call safe to repeat, by this package and by the caller:
// once it has been applied, the same call returns the same results without being applied again, for
// ttl (0 is 2 hours, at most 31 days), and at least until the call has ended. Derive it from the
// purpose of the operations. A failed call may be made again. The same ID with other operations returns ErrMismatch. Calls with an empty ID
// are all different, and the client does not repeat them.
func (a *Application) ApplyOps(ctx context.Context, requestID string, ttl time.Duration, ops []*quoratev1.Op) (*quoratev1.ApplyOpsResponse, error) {
	req := &quoratev1.ApplyOpsRequest{RequestId: requestID, Ops: ops}
	switch {
	case ttl > 0 && requestID != "":
		req.RequestIdTtl = durationpb.New(a.outlasting(ctx, ttl))
	case ttl != 0:
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

// GetAccounts returns 1 to 1000 accounts as they are at one moment after the call was made, in the
// order of the IDs, with refills applied up to now. It changes nothing. Account is not set for an
// account that does not exist.
func (a *Application) GetAccounts(ctx context.Context, ids []*quoratev1.AccountID) (*quoratev1.GetAccountsResponse, error) {
	return a.get(ctx, &quoratev1.GetAccountsRequest{Accounts: ids})
}

// GetAccountsStale is GetAccounts from the replicas closest to the node that is asked. It needs no
// leader, and may return a state from about a second ago.
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
