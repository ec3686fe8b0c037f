// Package envoy runs an Envoy beside the gateway: it writes the bootstrap that leads it to the control plane, and keeps
// the process alive. What listeners, routes and clusters Envoy gets is the control plane's business, not known here.
package envoy
