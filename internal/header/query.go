package header

import (
	"net/url"
	"slices"
	"strings"
)

// credentialParameters are the names of parameters in which clients and servers are known to put keys, in lower case.
var credentialParameters = []string{"key", "api_key", "apikey", "api-key", "token", "access_token"}

// QueryWithoutCredentials is a URL's query without the parameters that may hold a key: it is for this gateway, and for no provider.
func QueryWithoutCredentials(query string) string {
	fields := slices.DeleteFunc(strings.Split(query, "&"), func(field string) bool {
		name, _, _ := strings.Cut(field, "=")
		plain, err := url.QueryUnescape(name)
		return err != nil || slices.Contains(credentialParameters, strings.ToLower(plain))
	})
	return strings.Join(fields, "&")
}
