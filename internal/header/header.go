// Package header is an ordered list of HTTP header fields with lower-case names, as HTTP/2 and Envoy carry them.
package header

// Values of content-type.
const (
	JSON        = "application/json"
	EventStream = "text/event-stream"
)

// Forwarded is the header of a request that another gateway passes on: the number of gateways that it has passed, and its hints.
const Forwarded = "x-bardo-forwarded"

// Field is one header field. Name is lower case.
type Field struct{ Name, Value string }

// List is a small ordered set of header fields. Not safe for concurrent writes.
type List []Field

// Get returns the first value of name (lower case), or "".
func (l List) Get(name string) string {
	for i := range l {
		if l[i].Name == name {
			return l[i].Value
		}
	}
	return ""
}

// Values returns all values of name, in order.
func (l List) Values(name string) []string {
	var vs []string
	for i := range l {
		if l[i].Name == name {
			vs = append(vs, l[i].Value)
		}
	}
	return vs
}

// Has reports whether name is present.
func (l List) Has(name string) bool {
	for i := range l {
		if l[i].Name == name {
			return true
		}
	}
	return false
}
