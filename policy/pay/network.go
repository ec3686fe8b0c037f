package pay

import "strconv"

// Network is a chain by its CAIP-2 name, such as eip155:8453.
type Network struct {
	ID   uint64 // the chain's
	Name string // in version 1 of the protocol; "" if it has none there
}

// String returns the CAIP-2 name.
func (n Network) String() string { return "eip155:" + strconv.FormatUint(n.ID, 10) }

// Is reports whether a name in a message of a protocol version is that of the network.
func (n Network) Is(name string, version int) bool {
	if version == 1 {
		return n.Name != "" && name == n.Name
	}
	return name == n.String()
}

// Known is a network with its USDC contract.
type Known struct {
	Network Network
	USDC    Token
}

// networks are the supported networks, by their names of version 1. The addresses are Circle's.
var networks = map[string]Known{
	"base": {Network{8453, "base"}, Token{
		Address{0x83, 0x35, 0x89, 0xfc, 0xd6, 0xed, 0xb6, 0xe0, 0x8f, 0x4c, 0x7c, 0x32, 0xd4, 0xf7, 0x1b, 0x54, 0xbd, 0xa0, 0x29, 0x13}, "USD Coin", "2",
	}},
	"base-sepolia": {Network{84532, "base-sepolia"}, Token{
		Address{0x03, 0x6c, 0xbd, 0x53, 0x84, 0x2c, 0x54, 0x26, 0x63, 0x4e, 0x79, 0x29, 0x54, 0x1e, 0xc2, 0x31, 0x8f, 0x3d, 0xcf, 0x7e}, "USDC", "2",
	}},
}

// FindNetwork finds a network by its name of version 1 or its CAIP-2 name.
func FindNetwork(name string) (k Known, ok bool) {
	if k, ok = networks[name]; ok {
		return k, true
	}
	for _, k := range networks {
		if k.Network.String() == name {
			return k, true
		}
	}
	return Known{}, false
}
