package envoy

import "syscall"

const (
	maxConnections = 50_000
	ownDescriptors = 200 // those of an Envoy without clients, with a reserve
	perConnection  = 3   // a client's connection, the gateway's for its stream, and the provider's
)

// Connections returns the maximum number of client connections of an Envoy started by this program, all listeners together: as many as its open files
// allow (ulimit -n; Envoy uses the hard limit), at most 50,000. Envoy closes further ones immediately; otherwise they, and others, would wait for a
// file until their timeout.
func Connections() int64 {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return maxConnections
	}
	return connections(l.Max)
}

func connections(descriptors uint64) int64 {
	if descriptors >= ownDescriptors+maxConnections*perConnection {
		return maxConnections
	}
	return max(int64(descriptors)-ownDescriptors, perConnection) / perConnection
}
