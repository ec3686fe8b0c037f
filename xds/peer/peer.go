// Package peer knows who is at the other end of a connection to the control plane.
package peer

import (
	"context"
	"errors"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"bardo.money/gateway/internal/mtls"
)

// Is reports, as an error, that the one who makes the call of ctx is not the node that it says it is: a node's name stands in its
// certificate. In clear text, which only this machine's own programs may speak, anyone may say anything.
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
