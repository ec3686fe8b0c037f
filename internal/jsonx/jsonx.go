package jsonx

// Kind is the type of a JSON value.
type Kind uint8

// The kinds. Invalid is the kind of an absent value.
const (
	Invalid Kind = iota
	Null
	Bool
	Number
	String
	Object
	Array
)

// Doc is a validated JSON object with the places of its top-level members.
type Doc struct {
	Bytes   []byte
	Members []Member
	Stats   Stats
}

// Member is one top-level member. Offsets are into Doc.Bytes; End is excluded.
type Member struct {
	Key      string
	KeyStart int // the key's opening quote
	Start    int // the value
	End      int
	Kind     Kind
}

// Stats are counted while scanning.
type Stats struct {
	TextBytes int64 // bytes inside string values that look like text
	Opaque    int   // string values that look like base64 data
}

// Edits are pending changes of a Doc's bytes.
type Edits struct {
	list []edit
}

type edit struct {
	start, end int
	new        Raw
}
