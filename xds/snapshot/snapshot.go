// Package snapshot computes Envoy's configuration from the control plane's state. It is pure: the same state gives the same bytes and versions, so an
// unchanged state causes no push.
package snapshot

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	cachev3 "github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"google.golang.org/protobuf/proto"

	"bardo.money/gateway/envoy"
	"bardo.money/gateway/xds/state"
)

// builder is one computation: the state with its defaults, and the packer of extensions.
type builder struct {
	state.State
	envoy.Packer
}

// Build returns the configuration of an Envoy in this state. The version of each kind of resource is the hash of its content.
func Build(s state.State) (*cachev3.Snapshot, error) {
	if err := s.Validate(); err != nil {
		return nil, fmt.Errorf("state: %w", err)
	}
	b := &builder{State: s.WithDefaults()}
	clusters, err := b.clusters()
	if err != nil {
		return nil, err
	}
	all := map[resourcev3.Type][]types.Resource{
		resourcev3.ClusterType:  clusters,
		resourcev3.ListenerType: b.listeners(),
		resourcev3.RouteType:    b.routes(),
		resourcev3.SecretType:   b.secrets(),
	}
	if err := b.Err(); err != nil {
		return nil, err
	}
	out := &cachev3.Snapshot{}
	for kind, resources := range all {
		version, err := seal(resources)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", kind, err)
		}
		out.Resources[cachev3.GetResponseType(kind)] = cachev3.NewResources(version, resources)
	}
	return out, out.Consistent()
}

// validator is the interface that protoc-gen-validate generates: Envoy checks the same rules.
type validator interface{ ValidateAll() error }

// seal checks resources of one kind and returns the hash of their content.
func seal(resources []types.Resource) (string, error) {
	slices.SortFunc(resources, func(a, b types.Resource) int {
		return cmp.Compare(cachev3.GetResourceName(a), cachev3.GetResourceName(b))
	})
	h := sha256.New()
	var errs []error
	for _, r := range resources {
		if v, ok := r.(validator); ok {
			errs = append(errs, v.ValidateAll())
		}
		raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(r)
		errs = append(errs, err)
		fmt.Fprintf(h, "%d:", len(raw))
		h.Write(raw)
	}
	return hex.EncodeToString(h.Sum(nil)[:12]), errors.Join(errs...)
}
