package policy

// Knobs are settings of the layers that may differ from request to request: what the governor adjusts. A layer reads them with each request. Zero means as
// configured, and a layer does not leave its own safe range whatever they say.
type Knobs struct {
	CompressFrom int     // L5: bytes of a request from which on its history is shortened
	MaxTools     int     // L4: most tools of an agent's request; never above the layer's own limit
	Similarity   float64 // L2: least similarity of a stored answer's question; never below the configured one
}
