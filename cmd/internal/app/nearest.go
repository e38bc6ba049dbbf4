package app

import "fmt"

// DidYouMean proposes the known name nearest to an unknown one, as what to append to an error; empty if there is none
// worth proposing. Names that are false in known are not proposed.
func DidYouMean(name string, known map[string]bool) string {
	best, least := "", len(name)/2+1
	for k, ok := range known {
		if !ok {
			continue
		}
		if d := distance(name, k); d < least || (d == least && best != "" && k < best) {
			best, least = k, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %s?)", best)
}

// distance is the Levenshtein distance of two names, by bytes.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
