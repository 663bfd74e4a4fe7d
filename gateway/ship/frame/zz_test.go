package frame
import ("testing";"net";"time";"fmt")
func BenchmarkZZ(b *testing.B){
 for _, kb := range []int{64, 1024} { b.Run(fmt.Sprint(kb), func(b *testing.B){
 for b.Loop() {
 c,_ := net.Pipe()
 data := []byte{0x02, 1, 7}
 for len(data) < kb<<10 { data = append(data, 0x89, 0) }
 r := NewReader(NewConn(c), 1<<20, false, data)
 var m Message
 n:=0; t:=time.Now()
 for { ok, err := r.Next(&m); if err!=nil {b.Fatal(err)}; if !ok {break}; n++ }
 _ = t
 }})}
 // growth
 b.Run("grow", func(b *testing.B){
 for b.Loop() {
 c,d := net.Pipe()
 go func(){ d.Write(appendHeader(nil, Binary, 64<<20, 0)); p := make([]byte, 64<<10); for i:=0;i<1024;i++ { d.Write(p)} }()
 r := NewReader(NewConn(c), 1<<30, false, nil)
 var m Message
 for { ok, err := r.Next(&m); if err!=nil {b.Fatal(err)}; if ok {break}; r.Fill() }
 c.Close(); d.Close()
 }})
}
