package stored

import (
	"net/url"
	"strings"
)

// GoogleFile is the file that a URI means to Google's API, if it is one that is stored there: a file's name, one of its API's addresses, one
// in a bucket. What cannot be read counts as one. Any other address is fetched as everybody may, and so are public buckets.
func GoogleFile(uri string) (file string, stored bool) {
	if strings.HasPrefix(uri, "data:") {
		return "", false
	}
	u, err := url.Parse(uri)
	if err != nil {
		return uri, true
	}
	if u.Scheme != "https" && u.Scheme != "http" {
		return strings.TrimPrefix(uri, "/"), true
	}
	host := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	switch {
	case host == "storage.googleapis.com":
		return "", false
	case host == "googleapis.com", strings.HasSuffix(host, ".googleapis.com"), host == "", strings.ContainsFunc(host, beyondASCII):
		return fileName(u.Path, uri), true
	}
	return "", false
}

// fileName is what an answer calls the file at a path of the API: files/abc.
func fileName(path, otherwise string) string {
	if i := strings.LastIndex(path, "/files/"); i >= 0 {
		return path[i+1:]
	}
	return otherwise
}

func beyondASCII(r rune) bool { return r >= 0x80 }
