package pii

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"math"
	"strings"
)

// token is the format of a service's secrets: a prefix, and the number and kind of the following characters.
type token struct {
	prefix   string
	min, max int // number of characters after the prefix; max 0: no limit
	chars    func(byte) bool
}

// Kinds of characters in secrets.
func isAlnum(c byte) bool    { return classes[c]&(letter|digit) != 0 }
func isURL64(c byte) bool    { return isAlnum(c) || c == '-' || c == '_' }
func isDotted(c byte) bool   { return isURL64(c) || c == '.' }
func isBase64(c byte) bool   { return isURL64(c) || c == '+' || c == '/' || c == '=' }
func isAWSID(c byte) bool    { return classes[c]&upper != 0 || c >= '2' && c <= '7' }
func isAgeChar(c byte) bool  { return classes[c]&(upper|digit) != 0 }
func isWordChar(c byte) bool { return classes[c]&word != 0 }

// tokens are the formats of services' secrets. The first matching one is used.
var tokens = []token{
	{"sk-ant-", 20, 0, isURL64},            // Anthropic
	{"sk-proj-", 20, 0, isURL64},           // OpenAI
	{"sk-svcacct-", 20, 0, isURL64},        // OpenAI
	{"sk-admin-", 20, 0, isURL64},          // OpenAI
	{"sk-or-v1-", 32, 0, isAlnum},          // OpenRouter
	{"sk-", 20, 0, isURL64},                // OpenAI, DeepSeek and others of that form
	{"sk_live_", 16, 0, isAlnum},           // Stripe
	{"sk_test_", 16, 0, isAlnum},           // Stripe
	{"rk_live_", 16, 0, isAlnum},           // Stripe
	{"rk_test_", 16, 0, isAlnum},           // Stripe
	{"whsec_", 20, 0, isBase64},            // Stripe, webhooks
	{"AKIA", 16, 16, isAWSID},              // AWS
	{"ASIA", 16, 16, isAWSID},              // AWS
	{"ABIA", 16, 16, isAWSID},              // AWS
	{"ACCA", 16, 16, isAWSID},              // AWS
	{"ghp_", 36, 0, isAlnum},               // GitHub
	{"gho_", 36, 0, isAlnum},               // GitHub
	{"ghu_", 36, 0, isAlnum},               // GitHub
	{"ghs_", 36, 0, isAlnum},               // GitHub
	{"ghr_", 36, 0, isAlnum},               // GitHub
	{"github_pat_", 36, 0, isWordChar},     // GitHub
	{"glpat-", 20, 0, isURL64},             // GitLab
	{"xoxb-", 20, 0, isURL64},              // Slack
	{"xoxp-", 20, 0, isURL64},              // Slack
	{"xoxa-", 20, 0, isURL64},              // Slack
	{"xoxs-", 20, 0, isURL64},              // Slack
	{"xapp-", 20, 0, isURL64},              // Slack
	{"AIza", 35, 35, isURL64},              // Google
	{"GOCSPX-", 24, 0, isURL64},            // Google
	{"ya29.", 20, 0, isURL64},              // Google
	{"npm_", 36, 0, isAlnum},               // npm
	{"pypi-", 50, 0, isURL64},              // PyPI
	{"hf_", 30, 0, isAlnum},                // Hugging Face
	{"gsk_", 40, 0, isAlnum},               // Groq
	{"xai-", 40, 0, isAlnum},               // xAI
	{"r8_", 30, 0, isAlnum},                // Replicate
	{"pplx-", 32, 0, isAlnum},              // Perplexity
	{"fw_", 22, 0, isAlnum},                // Fireworks
	{"dop_v1_", 64, 64, isHex},             // DigitalOcean
	{"dapi", 32, 32, isHex},                // Databricks
	{"shpat_", 32, 32, isHex},              // Shopify
	{"shpss_", 32, 32, isHex},              // Shopify
	{"shpca_", 32, 32, isHex},              // Shopify
	{"sq0atp-", 22, 0, isURL64},            // Square
	{"sq0csp-", 40, 0, isURL64},            // Square
	{"SG.", 50, 0, isDotted},               // SendGrid
	{"lin_api_", 32, 0, isAlnum},           // Linear
	{"ntn_", 40, 0, isAlnum},               // Notion
	{"PMAK-", 40, 0, isURL64},              // Postman
	{"hvs.", 24, 0, isURL64},               // Vault
	{"dp.pt.", 40, 0, isAlnum},             // Doppler
	{"tfp_", 40, 0, isURL64},               // Typeform
	{"AGE-SECRET-KEY-1", 50, 0, isAgeChar}, // age
	{"bardo_sk_", 16, 0, isWordChar},       // this gateway
}

// minToken is the minimum length of tokens, prefix included.
var minToken = func() int {
	shortest := math.MaxInt
	for _, k := range tokens {
		shortest = min(shortest, len(k.prefix)+k.min)
	}
	return shortest
}()

// tokensBy has tokens by their first byte.
var tokensBy = func() (t [256][]token) {
	for _, k := range tokens {
		t[k.prefix[0]] = append(t[k.prefix[0]], k)
	}
	return t
}()

// secret parses the secret that begins with the word text[i:end].
func (s *scan) secret(i, end int) {
	if !s.wants(Secret) {
		return
	}
	isLong := end-i >= minToken || isBase64(s.at(end)) || s.at(end) == '.' // words of prose are not
	if isLong && s.token(i) {
		return
	}
	switch rest := s.text[i:]; {
	case strings.HasPrefix(rest, "eyJ"):
		s.jwt(i)
	case strings.HasPrefix(rest, "hooks"):
		s.webhook(i)
	default:
		s.assigned(i, end)
	}
}

// token parses a service's secret at i, and reports whether there is one.
func (s *scan) token(i int) bool {
	rest := s.text[i:]
	tokens := tokensBy[s.text[i]]
	for t := range tokens {
		k := &tokens[t]
		if !strings.HasPrefix(rest, k.prefix) {
			continue
		}
		n, limit := len(k.prefix), s.scanLimit(len(rest))
		for n < limit && k.chars(rest[n]) {
			n++
		}
		s.secretBytes += n
		for n > len(k.prefix) && (rest[n-1] == '.' || rest[n-1] == '-') {
			n--
		}
		size := n - len(k.prefix)
		if size >= k.min && (k.max == 0 || size <= k.max) && !s.is(i+n, letter|digit) && isRandom(rest[len(k.prefix):n]) {
			s.add(i, i+n, Secret, 1)
			return true
		}
	}
	return false
}

// scanLimit returns the number of bytes of a possible secret that are scanned: all of them, and fewer once many bytes were scanned in vain, as in a text of many
// prefixes of secrets, so that the time stays proportional to the text.
func (s *scan) scanLimit(remaining int) int {
	const usual, free = 256, 1 << 18
	if s.secretBytes > free+4*len(s.text) {
		return min(remaining, usual)
	}
	return remaining
}

// isRandom reports whether a text looks random: digits among letters, many different characters, no words of examples.
func isRandom(s string) bool {
	const different = 8
	var seen [256]bool
	n, digits, letters, others := 0, 0, 0, 0
	for i := range len(s) {
		c := s[i]
		if !seen[c] {
			seen[c] = true
			n++
		}
		switch classes[c] {
		case digit:
			digits++
		case lower, upper:
			letters++
		default:
			others++
		}
	}
	if n < different || digits == 0 && entropy(s) < 3.8 || letters == 0 {
		return false
	}
	low := strings.ToLower(s)
	for _, w := range []string{"example", "your", "xxxx", "placeholder", "changeme", "redacted", "insert", "1234567890abcdef", "abcdefgh"} {
		if strings.Contains(low, w) {
			return false
		}
	}
	return others*4 < len(s)
}

// entropy returns the bits per character, by the text's own distribution.
func entropy(s string) (bits float64) {
	var count [256]int
	for i := range len(s) {
		count[s[i]]++
	}
	for _, n := range &count {
		if n > 0 {
			p := float64(n) / float64(len(s))
			bits -= p * math.Log2(p)
		}
	}
	return bits
}

// jwt parses the JSON web token at i: its header is JSON with an algorithm.
func (s *scan) jwt(i int) {
	longest := s.scanLimit(1 << 14)
	end, dots, first := i, 0, 0
	for end < len(s.text) && end-i < longest && (isURL64(s.text[end]) || s.text[end] == '.' && dots < 4) {
		if s.text[end] == '.' {
			if dots++; dots == 1 {
				first = end
			}
		}
		end++
	}
	s.secretBytes += end - i
	for end > i && s.text[end-1] == '.' {
		end--
		dots--
	}
	if dots < 2 {
		return
	}
	head, err := base64.RawURLEncoding.DecodeString(s.text[i:first])
	var h struct {
		Alg string `json:"alg"`
	}
	if err == nil && json.NewDecoder(bytes.NewReader(head)).Decode(&h) == nil && h.Alg != "" {
		s.add(i, end, Secret, 1)
	}
}

// webhook parses the secret path of the Slack webhook at i.
func (s *scan) webhook(i int) {
	const prefix = "hooks.slack.com/services/"
	if !strings.HasPrefix(s.text[i:], prefix) {
		return
	}
	from := i + len(prefix)
	end := from
	for end < len(s.text) && (isAlnum(s.text[end]) || s.text[end] == '/') {
		end++
	}
	if strings.Count(s.text[from:end], "/") == 2 && end-from >= 40 {
		s.add(from, end, Secret, 1)
	}
}

// secretNames are suffixes of names of secrets, in lower case.
var secretNames = []string{"secret", "token", "apikey", "api_key", "access_key", "secret_key", "passwd", "password", "auth_key", "client_secret", "secretaccesskey", "accountkey"}

// assigned parses the value that is assigned to the name text[i:end]: api_key = "…", "token": "…".
func (s *scan) assigned(i, end int) {
	const shortest, longest = 16, 256
	if end-i < 5 || end-i > 64 || !mayEndName[s.text[end-1]] {
		return
	}
	at := end
	quoted := func() {
		for strings.IndexByte("\"'`\\", s.at(at)) >= 0 && s.at(at) != 0 {
			at++
		}
	}
	spaces := func() {
		for s.at(at) == ' ' {
			at++
		}
	}
	quoted()
	spaces()
	if s.at(at) != '=' && s.at(at) != ':' || !isSecretName(s.text[i:end]) {
		return
	}
	at++
	spaces()
	quoted()
	from := at
	for at < len(s.text) && at-from < longest && isBase64(s.text[at]) {
		at++
	}
	if n := at - from; n < shortest || s.at(at) == '(' || s.at(at) == '.' || !isRandom(s.text[from:at]) || entropy(s.text[from:at]) < 3 {
		return
	}
	s.add(from, at, Secret, 0.7)
}

// mayEndName has the last letters of secretNames, in either case.
var mayEndName = func() (t [256]bool) {
	for _, name := range secretNames {
		c := name[len(name)-1]
		t[c], t[c-'a'+'A'] = true, true
	}
	return t
}()

func isSecretName(name string) bool {
	low := strings.ToLower(name)
	for _, k := range secretNames {
		if strings.HasSuffix(low, k) {
			return true
		}
	}
	return false
}
