package policy

// Knobs are settings of the layers that the governor adjusts per request. Zero means the configured value. A layer clamps them to its own safe range.
type Knobs struct {
	CompressFrom int     // L5: bytes of a request above which its history is shortened
	MaxTools     int     // L4: maximum tools of an agent's request; never above the layer's own limit
	Similarity   float64 // L2: minimum similarity of a cached answer's question; never below the configured one
}
