package classifyeval

import "bardo.money/gateway/policy/classify"

// ridge is the penalty on long directions: with few prompts, it keeps them from learning each by heart. It was chosen by leaving out one prompt of the
// tuning half at a time.
const ridge = 0.3

// row is a labelled prompt with its vector.
type row struct {
	Prompt
	vector []float32
}

// fit finds the prototypes of labelled prompts by ridge regression: the direction whose product with the vectors is nearest to the label's value, 1 and 0
// for names, and the level itself.
func fit(rows []row) (all []classify.Prototype) {
	solve := solver(rows)
	add := func(kind, name string, value func(*classify.Label) float64) {
		p := solve(value)
		p.Kind, p.Name = kind, name
		all = append(all, p)
	}
	for _, name := range classify.Domains {
		add(classify.Domain, name, func(l *classify.Label) float64 { return one(l.Domain == name) })
	}
	for _, name := range classify.Intents {
		add(classify.Intent, name, func(l *classify.Label) float64 { return one(l.Intent == name) })
	}
	add(classify.Level, "", func(l *classify.Label) float64 { return l.Level })
	return all
}

func one(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// solver returns the regression of values of labels on vectors, by the inverse of the prompts' products: there are fewer prompts than dimensions.
func solver(rows []row) func(value func(*classify.Label) float64) classify.Prototype {
	n := len(rows)
	m := make([][]float64, n)
	for i := range m {
		m[i] = make([]float64, n)
		for k := range m[i] {
			m[i][k] = product(rows[i].vector, rows[k].vector) + 1 // 1: the bias
		}
		m[i][i] += ridge
	}
	inverse := invert(m)
	return func(value func(*classify.Label) float64) classify.Prototype {
		sum := make([]float64, len(rows[0].vector))
		bias := 0.0
		for i := range rows {
			weight := 0.0
			for k := range rows {
				weight += inverse[i][k] * value(&rows[k].Label)
			}
			bias += weight
			for d, x := range rows[i].vector {
				sum[d] += weight * float64(x)
			}
		}
		p := classify.Prototype{Bias: float32(bias), Vector: make([]float32, len(sum))}
		for d, x := range sum {
			p.Vector[d] = float32(x)
		}
		return p
	}
}

func product(a, b []float32) (sum float64) {
	for i := range a {
		sum += float64(a[i]) * float64(b[i])
	}
	return sum
}

// invert is the inverse of a positive definite matrix, which is destroyed.
func invert(m [][]float64) [][]float64 {
	n := len(m)
	out := make([][]float64, n)
	for i := range out {
		out[i] = make([]float64, n)
		out[i][i] = 1
	}
	for i := range m {
		scale(m[i], 1/m[i][i], out[i])
		for k := range m {
			if k != i {
				subtract(m[k], m[i], m[k][i], out[k], out[i])
			}
		}
	}
	return out
}

// scale multiplies a row of a matrix and of its inverse; f is read before the row changes.
func scale(row []float64, f float64, inverse []float64) {
	for i := range row {
		row[i] *= f
		inverse[i] *= f
	}
}

func subtract(row, from []float64, f float64, inverse, fromInverse []float64) {
	for i := range row {
		row[i] -= f * from[i]
		inverse[i] -= f * fromInverse[i]
	}
}
