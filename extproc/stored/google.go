package stored

import (
	"net/url"
	"strings"
)

// GoogleFile returns the stored file that a URI refers to in Google's API: a file name, a URL of the API, or an object in a bucket. A URI that cannot
// be parsed counts as one. Other URLs, and public buckets, are fetched without credentials.
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
	case host == "googleapis.com", strings.HasSuffix(host, ".googleapis.com"), host == "", strings.ContainsFunc(host, notASCII):
		return fileName(u.Path, uri), true
	}
	return "", false
}

// fileName returns the name of the file at a path of the API: files/abc.
func fileName(path, otherwise string) string {
	if i := strings.LastIndex(path, "/files/"); i >= 0 {
		return path[i+1:]
	}
	return otherwise
}

func notASCII(r rune) bool { return r >= 0x80 }
