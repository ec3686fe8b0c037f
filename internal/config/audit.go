package config

// Audit configures the audit log.
type Audit struct {
	File     string `key:"file" start:"true" doc:"File of the audit log, whose lines are chained by hashes; a relative one is in the state directory. Without it, there is none. Read at the start."`
	Sync     string `key:"sync" default:"interval" oneof:"always interval off" start:"true" doc:"When lines are put on the disk for good: after each batch, once a second, or when the system does it. Requests never wait. Read at the start."`
	MaxBytes int64  `key:"max_bytes" default:"67108864" min:"4096" max:"1099511627776" start:"true" doc:"Size of a file at which a new one is begun. Read at the start."`
	Keep     int    `key:"keep" default:"0" min:"0" max:"100000" start:"true" doc:"Files that are kept besides the newest one; 0 keeps all. Read at the start."`
}
