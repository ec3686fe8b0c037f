// Package peer verifies the identity of the other end of a connection to the control plane.
package peer

import (
	"context"
	"errors"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"bardo.money/gateway/internal/mtls"
)

// Is returns an error if the peer of the call of ctx is not the named node, by its certificate. Clear-text connections, which only local programs
// can make, are not checked.
func Is(ctx context.Context, node string) error {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return errors.New("the call has no peer")
	}
	secured, ok := p.AuthInfo.(credentials.TLSInfo)
	if !ok {
		return nil
	}
	if len(secured.State.PeerCertificates) == 0 {
		return errors.New("the peer has no certificate")
	}
	return mtls.HasName(secured.State.PeerCertificates[0], node)
}
