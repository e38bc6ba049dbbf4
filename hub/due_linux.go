package hub

// dueHeap orders a shard's streams by when they need attention.
type dueHeap []*subscriber //nolint:recvcheck // container/heap wants both

func (d dueHeap) Len() int           { return len(d) }
func (d dueHeap) Less(i, j int) bool { return d[i].at.Before(d[j].at) }
func (d dueHeap) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].heapPos, d[j].heapPos = i, j
}

// Push adds a subscriber; use heap.Push.
func (d *dueHeap) Push(x any) {
	s := x.(*subscriber)
	s.heapPos = len(*d)
	*d = append(*d, s)
}

// Pop removes the last subscriber; use heap.Pop.
func (d *dueHeap) Pop() any {
	last := len(*d) - 1
	s := (*d)[last]
	(*d)[last] = nil
	*d = (*d)[:last]
	s.heapPos = -1
	return s
}
