package identity

import (
	"encoding/binary"
	"encoding/json"
	"strconv"
	"strings"

	"golang.org/x/crypto/sha3"

	"bardo.money/gateway/policy/pay"
)

// The messages that the owners of agents sign (EIP-712). The domain is that of the gateway's messages, for one chain and one registry of agents.

const (
	domainName    = "BardoInference"
	domainVersion = "1"
	domainType    = "EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"
	linkType      = "LinkAgent(uint256 agentId,address holder,string account,string audience,bytes32 nonce,uint256 expires)"
)

// Realm is the registry of agents, and the audience that their owners sign for.
type Realm struct {
	Network  pay.Network
	Registry pay.Address // the identity registry
	Audience string      // the operator's name for the gateway
}

// agentsPrefix is the prefix of the subjects of all agents, of any registry.
const agentsPrefix = "erc8004:"

// prefix returns the prefix of the subjects of the realm's agents.
func (r *Realm) prefix() Subject {
	return Subject(agentsPrefix + r.Network.String() + ":" + r.Registry.String() + ":")
}

// Has reports whether a subject is one of the realm's agents.
func (r *Realm) Has(s Subject) bool { return strings.HasPrefix(string(s), string(r.prefix())) }

// Subject returns the subject of an agent.
func (r *Realm) Subject(id pay.Word) Subject { return r.prefix() + Subject(AgentIDText(id)) }

// LinkClaim is the statement of an agent's holder that the agent belongs to an account.
type LinkClaim struct {
	Agent   pay.Word
	Holder  pay.Address // the signer: the owner or the wallet
	Account string
	Nonce   pay.Word
	Expires int64 // seconds since 1970
}

// Digest returns what the holder signs.
func (c *LinkClaim) Digest(r *Realm) pay.Word {
	account, audience := keccak([]byte(c.Account)), keccak([]byte(r.Audience))
	expires := number(uint64(c.Expires)) //nolint:gosec // checked to be positive
	typ := keccak([]byte(linkType))
	return r.sign(keccak(typ[:], c.Agent[:], padded(c.Holder), account[:], audience[:], c.Nonce[:], expires[:]))
}

// sign returns the digest of a message in the realm's domain.
func (r *Realm) sign(message pay.Word) pay.Word {
	typ, name, version := keccak([]byte(domainType)), keccak([]byte(domainName)), keccak([]byte(domainVersion))
	chain := number(r.Network.ID)
	domain := keccak(typ[:], name[:], version[:], chain[:], padded(r.Registry))
	return keccak([]byte{0x19, 0x01}, domain[:], message[:])
}

func keccak(parts ...[]byte) (w pay.Word) {
	h := sha3.NewLegacyKeccak256()
	for _, p := range parts {
		_, _ = h.Write(p) // never fails
	}
	h.Sum(w[:0])
	return w
}

func number(n uint64) (w pay.Word) {
	binary.BigEndian.PutUint64(w[24:], n)
	return w
}

func padded(a pay.Address) []byte {
	var w pay.Word
	copy(w[12:], a[:])
	return w[:]
}

// member is a member of a type, in the format of wallets.
type member struct {
	Name string `json:"name"`
	Type string `json:"type"`
}

// typedData is a message in the format that wallets show and sign (eth_signTypedData_v4).
type typedData struct {
	Types       map[string][]member `json:"types"`
	PrimaryType string              `json:"primaryType"`
	Domain      any                 `json:"domain"`
	Message     any                 `json:"message"`
}

// TypedData returns the claim in the format that a wallet signs.
func (c *LinkClaim) TypedData(r *Realm) (json.RawMessage, error) {
	return json.Marshal(typedData{
		Types: map[string][]member{
			"EIP712Domain": {{"name", "string"}, {"version", "string"}, {"chainId", "uint256"}, {"verifyingContract", "address"}},
			"LinkAgent":    {{"agentId", "uint256"}, {"holder", "address"}, {"account", "string"}, {"audience", "string"}, {"nonce", "bytes32"}, {"expires", "uint256"}},
		},
		PrimaryType: "LinkAgent",
		Domain:      map[string]any{"name": domainName, "version": domainVersion, "chainId": r.Network.ID, "verifyingContract": r.Registry.String()},
		Message: map[string]any{
			"agentId": AgentIDText(c.Agent), "holder": c.Holder.String(), "account": c.Account, "audience": r.Audience, "nonce": c.Nonce.String(),
			"expires": strconv.FormatInt(c.Expires, 10),
		},
	})
}
