package envoy

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"bardo.money/gateway/xds/state"
)

// metadataKey is the key of an Envoy's local settings in its node metadata.
const metadataKey = "bardo"

// nodeFields returns the plain text members below metadataKey.
func nodeFields(n *state.Node) map[string]*string {
	return map[string]*string{
		"http": &n.HTTP, "https": &n.HTTPS, "egress": &n.EgressSocket, "demo": &n.DemoSocket, "realtime": &n.RealtimeSocket, "extproc": &n.ExtProc,
		"extproc_name": &n.ExtProcServer, "secrets": &n.SecretDir,
	}
}

// node returns an Envoy's node message. A node without an id has no local settings.
func node(n state.Node) *corev3.Node {
	if n.ID == "" {
		return &corev3.Node{Id: state.NodeID, Cluster: state.NodeID}
	}
	local := map[string]*structpb.Value{}
	for name, v := range nodeFields(&n) {
		if *v != "" {
			local[name] = structpb.NewStringValue(*v)
		}
	}
	return &corev3.Node{Id: n.ID, Cluster: state.NodeID, Metadata: &structpb.Struct{Fields: map[string]*structpb.Value{
		metadataKey: structpb.NewStructValue(&structpb.Struct{Fields: local}),
	}}}
}

// ParseNode parses an Envoy's node message. ok is false if it has no local settings.
func ParseNode(c *corev3.Node) (n state.Node, ok bool, err error) {
	n.ID = c.GetId()
	local := c.GetMetadata().GetFields()[metadataKey].GetStructValue()
	if local == nil {
		return n, false, nil
	}
	for name, v := range nodeFields(&n) {
		*v = local.GetFields()[name].GetStringValue()
	}
	return n, true, n.Validate()
}
