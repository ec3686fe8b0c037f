package state

import (
	"strings"

	"bardo.money/gateway/policy"
)

// The names on which Envoy's configuration and the sidecar agree.
const (
	// HeaderPath selects the client listeners' route: PathJSON or PathAlone. The sidecar answers requests without it.
	HeaderPath = "x-bardo-internal-path"
	// HeaderExchange carries, on the egress listener, the egress secret, a dot, and the id of a live exchange.
	HeaderExchange = "x-bardo-internal-exchange"
	// HeaderCluster names the cluster that a call through the egress listener goes to.
	HeaderCluster = "x-bardo-internal-cluster"
	// HeaderAffinity chooses among a provider's equal endpoints: requests with the same value go to the same one, unless it is overloaded.
	HeaderAffinity = "x-bardo-internal-affinity"
	// HeaderFailure has, in Envoy's own answers of the egress listener, the cause: its response code details, a space, and the address that it tried,
	// "-" for none.
	HeaderFailure = "x-bardo-internal-failure"

	// PathJSON is the route of requests with a single-body answer: a truncated answer is retried elsewhere.
	PathJSON = "json"
	// PathAlone is PathJSON for a single candidate, which is not retried immediately after a rate-limit answer.
	PathAlone = "alone"

	// Metadata is the dynamic metadata namespace of the sidecar's data for the filters of further attempts. It holds KeyExchange and
	// KeyContentLength.
	Metadata = "bardo"
	// MetadataAttempts is the namespace in which Envoy's filters record failed attempts for the sidecar, one KeyAttempt each. It is separate because
	// Envoy encodes a namespace again for every message to the sidecar: most requests have no failed attempts.
	MetadataAttempts = "bardo.attempts"
	// HeaderPeer is the client's IP address. Envoy sets it in every client request, whatever the client sent.
	HeaderPeer = "x-envoy-external-address"
	// MetadataOrder is the namespace of a request's own failover order: {"priority_groups": [{"name": CLUSTER}, …]}.
	MetadataOrder = "bardo.order"
	// KeyExchange is the exchange's id. Attempt streams read it here, because request headers that one attempt removes are missing in the next.
	KeyExchange = "exchange"
	// KeyContentLength is the length, a decimal string, of the body that an attempt stream encoded.
	KeyContentLength = "content_length"
	// KeyAttempt prefixes the outcome of an attempt: "attempt_2" is "CLUSTER;STATUS;RETRY-AFTER".
	KeyAttempt = "attempt_"

	// InitialMode is the gRPC metadata key that tells the sidecar which filter opened a stream.
	InitialMode = "x-bardo-mode"
	// ModeRouter is the stream of a client's request.
	ModeRouter = "router"
	// ModeAttempt is the stream of one further attempt.
	ModeAttempt = "attempt"

	// ModuleName is the dynamic module: Envoy loads lib{ModuleName}.so.
	ModuleName = "bardo"
	// ModuleClient is the module's filter of a client's request.
	ModuleClient = "client"
	// ModuleAttempt is the module's filter of one further attempt.
	ModuleAttempt = "attempt"
	// ModuleProcess is the module's bootstrap extension, with the lifetime of Envoy.
	ModuleProcess = "process"

	// NodeID is the node id of every Envoy that this control plane serves.
	NodeID = "bardo"
)

const (
	retrySuffix    = "~retry"
	realtimeSuffix = "~realtime"
)

// Cluster returns the cluster of a provider's first attempts and egress calls: it sends a request unchanged.
func Cluster(p policy.ProviderID) string { return string(p) }

// RetryCluster returns the cluster that has the sidecar encode the request for its provider.
func RetryCluster(p policy.ProviderID) string { return string(p) + retrySuffix }

// RealtimeCluster returns the cluster of a provider's realtime sessions, which speaks HTTP/1.1: a WebSocket handshake over HTTP/2 needs an extension that
// few servers have.
func RealtimeCluster(p policy.ProviderID) string { return string(p) + realtimeSuffix }

// ProviderOf returns the provider of a cluster, of either kind.
func ProviderOf(cluster string) policy.ProviderID {
	return policy.ProviderID(strings.TrimSuffix(cluster, retrySuffix))
}
