package hub

// dueHeap orders streams by when they need attention.
type dueHeap []*subscriber //nolint:recvcheck // container/heap wants both

func (d dueHeap) Len() int           { return len(d) }
func (d dueHeap) Less(i, j int) bool { return d[i].at.Before(d[j].at) }
func (d dueHeap) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].place, d[j].place = int32(i), int32(j) //nolint:gosec // far fewer streams
}

// Push adds a subscriber; use heap.Push.
func (d *dueHeap) Push(x any) {
	s := x.(*subscriber)
	s.place = int32(len(*d)) //nolint:gosec // see Swap
	*d = append(*d, s)
}

// Pop removes the last subscriber; use heap.Pop.
func (d *dueHeap) Pop() any {
	last := len(*d) - 1
	s := (*d)[last]
	(*d)[last] = nil
	*d = (*d)[:last]
	s.place = absent
	return s
}
