package spec

// Field is one name-value pair of a form.
type Field struct{ Name, Value string }

// Form is a parsed application/x-www-form-urlencoded string, in the order in which it was sent.
type Form []Field

// First returns the value of the first field called name, and whether there is one (PUB-21).
func (f Form) First(name string) (string, bool) {
	for i := range f {
		if f[i].Name == name {
			return f[i].Value, true
		}
	}
	return "", false
}

// All returns the values of every field called name, in order; nil if there is none.
func (f Form) All(name string) []string {
	var values []string
	for i := range f {
		if f[i].Name == name {
			values = append(values, f[i].Value)
		}
	}
	return values
}
