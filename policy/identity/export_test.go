package identity

import (
	"time"

	"bardo.money/gateway/policy/pay"
)

// DelegationDigest returns what the issuer of a header signs.
func DelegationDigest(text string, r *Realm) (pay.Word, error) {
	d, _, err := parseDelegation(text)
	if err != nil {
		return pay.Word{}, err
	}
	return d.digest(r), nil
}

// ProofDigest returns what the delegate signs for a request.
func ProofDigest(text string, r *Realm, delegation pay.Word, method, path string) (pay.Word, error) {
	p, _, err := parseProof(text)
	if err != nil {
		return pay.Word{}, err
	}
	return p.digest(r, delegation, method, path), nil
}

// FillProofs uses proofs at one time until there is no room.
func FillProofs(now time.Time) (err error) {
	var p proofs
	for n := uint64(0); err == nil && n <= maxProofs; n++ {
		err = p.use(now, pay.Word{}, number(n))
	}
	return err
}
