package config

import "time"

// Privy is the operator's app at Privy, whose users may send its access tokens.
type Privy struct {
	AppID   string        `key:"app_id" doc:"The app's id. Required."`
	JWKS    URL           `key:"jwks_url" doc:"Where the app's public keys are, fetched through Envoy. Without it, https://auth.privy.io/api/v1/apps/<app_id>/jwks.json."`
	Issuer  string        `key:"issuer" default:"privy.io" doc:"The issuer that tokens name."`
	Refresh time.Duration `key:"refresh" default:"1h" doc:"Age at which the app's keys are fetched again. A token with a key id that is not among them has them fetched again at most once a minute."`
}

// KeySet is where the app's public keys are.
func (p *Privy) KeySet() URL {
	if p.JWKS != (URL{}) {
		return p.JWKS
	}
	return URL{Scheme: "https", Host: "auth.privy.io", Path: "/api/v1/apps/" + p.AppID + "/jwks.json"}
}

// checkIdentity checks where identities come from.
func (d *decoder) checkIdentity(a *Auth) {
	if p := a.Privy; p != nil {
		d.checkPrivy(p)
	}
}

func (d *decoder) checkPrivy(p *Privy) {
	const most = 128
	if !isWord(p.AppID) || len(p.AppID) > most {
		d.problem("auth.privy.app_id", "the id of an app at Privy", "%q", p.AppID)
	}
	if p.Issuer == "" {
		d.problem("auth.privy.issuer", "the issuer that tokens name, such as privy.io", "missing")
	}
	if p.Refresh < time.Minute || p.Refresh > 24*time.Hour {
		d.problem("auth.privy.refresh", "from 1m to 24h", "%s", p.Refresh)
	}
	if p.JWKS != (URL{}) && !p.JWKS.TLS() && p.JWKS.public() {
		d.problem("auth.privy.jwks_url", "an address that begins with https://", "whoever is between here and %s could replace the keys that tokens are verified with", p.JWKS.Host)
	}
}

// isWord reports whether a name consists of letters, digits, dashes and underscores.
func isWord(s string) bool {
	for _, c := range []byte(s) {
		if (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && c != '-' && c != '_' {
			return false
		}
	}
	return s != ""
}
