package admin

import (
	"fmt"
	"net/url"
	"strings"

	"bardo.money/gateway/policy/intent"
)

// Checks of the values that a key may be bound to. Each returns the item as it is stored, or the problem.

func checkModel(s string) (item, problem string) {
	if i := strings.IndexByte(s, '*'); i >= 0 && i < len(s)-1 || s == "*" {
		return "", fmt.Sprintf("%q: a prefix ends in its only *", s)
	}
	return s, ""
}

func checkSubsystem(s string) (item, problem string) {
	if !intent.Known(s) {
		return "", fmt.Sprintf("%q is no subsystem, expected one such as %s", s, strings.Join(intent.Names(), ", "))
	}
	return s, ""
}

// checkOrigin reads an origin as browsers send it.
func checkOrigin(s string) (item, problem string) {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.Scheme+"://"+u.Host != s {
		return "", fmt.Sprintf("%q, expected an origin such as https://app.example, without a path", s)
	}
	return strings.ToLower(s), ""
}
