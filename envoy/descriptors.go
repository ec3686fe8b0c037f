package envoy

import "syscall"

const (
	mostConnections = 50_000
	ownDescriptors  = 200 // those of an Envoy without clients, and some to spare
	perConnection   = 3   // a client's connection, the gateway's for its stream, and the provider's
)

// Connections is how many connections of clients an Envoy that this program starts may have, all listeners together: as many as it has open files
// for (ulimit -n; Envoy takes the hard limit), at most 50,000. One more is closed at once, where it would otherwise wait for a file until its time-out,
// and others with it.
func Connections() int64 {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return mostConnections
	}
	return connections(l.Max)
}

func connections(descriptors uint64) int64 {
	if descriptors >= ownDescriptors+mostConnections*perConnection {
		return mostConnections
	}
	return max(int64(descriptors)-ownDescriptors, perConnection) / perConnection
}
