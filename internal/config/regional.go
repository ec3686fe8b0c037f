package config

import (
	"cmp"
	"fmt"
	"strings"

	"bardo.money/gateway/internal/kind"
	"bardo.money/gateway/internal/secret"
)

// Providers in AWS's regions: their address follows from the region, and their requests carry an API key or are signed with AWS credentials.

// regionPattern is the form of a region. It becomes part of a host name.
var regionPattern = pattern(`^[a-z]{2,}(-[a-z]+)+-[0-9]+$`)

// inRegion returns the kind with the region of its section, or of the environment, in its base URL. Without a region it has no base URL.
func (d *decoder) inRegion(k kind.Kind, h *Host) kind.Kind {
	if !k.Regional() {
		return k
	}
	region := d.region()
	if h != nil {
		region = cmp.Or(h.Region, region)
	}
	if !regionPattern().MatchString(region) {
		k.BaseURL = ""
		return k
	}
	k.BaseURL = strings.ReplaceAll(k.BaseURL, kind.Region, region)
	return k
}

// region returns the environment's region, "" for none.
func (d *decoder) region() string {
	return cmp.Or(d.lookup("AWS_REGION"), d.lookup("AWS_DEFAULT_REGION"))
}

// completeRegional completes and checks the section of a kind in AWS's regions. key is the API key of the environment, which AWS credentials of the
// section or, without an API key, of the environment take the place of.
func (d *decoder) completeRegional(k kind.Kind, h *Host, key Secret) {
	at := "providers." + k.Name
	if h.Region = cmp.Or(h.Region, d.region()); h.Region == "" {
		d.problem(at+".region", "an AWS region, such as us-east-1, or the variable AWS_REGION", missing)
	} else if !regionPattern().MatchString(h.Region) {
		d.problem(at+".region", "an AWS region, such as us-east-1", "%q is none", h.Region)
	}
	hasKey := h.APIKey.IsSet() || len(h.APIKeys) > 0
	switch {
	case h.AccessKeyID.IsSet() && hasKey:
		d.problem(at+".access_key_id", "either an API key or an access key", "there is an api_key as well")
	case h.AccessKeyID.IsSet() != h.SecretAccessKey.IsSet():
		d.problem(at+".secret_access_key", "both parts of the access key, access_key_id and secret_access_key", "one is missing")
	case h.SessionToken.IsSet() && !h.AccessKeyID.IsSet():
		d.problem(at+".session_token", "the access key that it belongs to", "there is no access_key_id")
	case !h.AccessKeyID.IsSet() && !hasKey && !key.IsSet():
		h.AccessKeyID, h.SecretAccessKey = d.firstOf("AWS_ACCESS_KEY_ID"), d.firstOf("AWS_SECRET_ACCESS_KEY")
		h.SessionToken = d.firstOf("AWS_SESSION_TOKEN")
	}
	d.checkWithoutSpace(at+".api_key", h.APIKey)
	for i, k := range h.APIKeys {
		d.checkWithoutSpace(fmt.Sprintf("%s.api_keys[%d]", at, i), k)
	}
	d.checkWithoutSpace(at+".access_key_id", h.AccessKeyID)
	d.checkWithoutSpace(at+".secret_access_key", h.SecretAccessKey)
	d.checkWithoutSpace(at+".session_token", h.SessionToken)
}

func (d *decoder) checkWithoutSpace(key string, part Secret) {
	if strings.ContainsAny(part.Reveal(), " \t\r\n") {
		d.problem(key, "the value as AWS shows it", "it has a space")
	}
}

// key returns the section's own API key, or its AWS credentials as one secret: the id, the secret and the session token, with spaces between.
func (h *Host) key() Secret {
	if !h.AccessKeyID.IsSet() || !h.SecretAccessKey.IsSet() {
		return h.APIKey
	}
	parts := []string{h.AccessKeyID.Reveal(), h.SecretAccessKey.Reveal()}
	if h.SessionToken.IsSet() {
		parts = append(parts, h.SessionToken.Reveal())
	}
	return secret.New(strings.Join(parts, " "))
}
