package secret

import (
	"net/url"
	"strings"
)

// A credential may contain the secret inside other text, and a server's error may quote only the secret: "cannot POST /v3/KEY" for the address
// https://node.example/v3/KEY, or "unknown token" for "Bearer TOKEN".

// minSegment is the minimum length of a URL's path segment, in bytes, to count as a secret. It must also have a digit: "rpc", "webhooks" and the
// names of networks are not removed.
const minSegment = 16

// partsOf returns the secrets inside a credential.
func partsOf(credential string) (parts []string) {
	if u, err := url.Parse(credential); err == nil && u.Host != "" {
		return partsOfURL(u)
	}
	if fields := strings.Split(credential, " "); len(fields) == 3 && len(fields[1]) >= minSegment && len(fields[2]) >= minSegment {
		return fields[1:] // of AWS: the secret and the session token after the id of the access key
	}
	if scheme, value, ok := strings.Cut(credential, " "); ok && scheme != "" {
		if value = strings.TrimSpace(value); len(value) >= shortest && !strings.Contains(value, " ") {
			parts = append(parts, value)
		}
	}
	return parts
}

// partsOfURL returns the password, the long segments of the path, and the values of the query.
func partsOfURL(u *url.URL) (parts []string) {
	if password, ok := u.User.Password(); ok && len(password) >= shortest {
		parts = append(parts, password)
	}
	for segment := range strings.SplitSeq(u.Path, "/") {
		if len(segment) >= minSegment && strings.ContainsAny(segment, "0123456789") {
			parts = append(parts, segment)
		}
	}
	for _, values := range u.Query() {
		for _, v := range values {
			if len(v) >= shortest {
				parts = append(parts, v)
			}
		}
	}
	return parts
}
