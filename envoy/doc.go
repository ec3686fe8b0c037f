// Package envoy runs an Envoy beside the gateway: it writes the bootstrap with the control plane's address, and keeps the process running. Listeners,
// routes and clusters come from the control plane, and are not known here.
package envoy
