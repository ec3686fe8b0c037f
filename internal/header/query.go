package header

import (
	"net/url"
	"slices"
	"strings"
)

// credentialParameters are the query parameters in which keys are commonly sent, in lower case.
var credentialParameters = []string{"key", "api_key", "apikey", "api-key", "token", "access_token"}

// QueryWithoutCredentials returns a URL's query without the parameters that may hold a key: it is for this gateway, not for a provider.
func QueryWithoutCredentials(query string) string {
	fields := slices.DeleteFunc(strings.Split(query, "&"), func(field string) bool {
		name, _, _ := strings.Cut(field, "=")
		plain, err := url.QueryUnescape(name)
		return err != nil || slices.Contains(credentialParameters, strings.ToLower(plain))
	})
	return strings.Join(fields, "&")
}
