//go:build nodeos

package nodeos

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/big"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"
	//lint:ignore SA1019 the chain's text form of a signature ends in a RIPEMD-160 checksum
	"golang.org/x/crypto/ripemd160"
)

// The development key that every nodeos knows as its default. It is public and
// guards nothing but private test chains.
const (
	devPublicKey  = "EOS6MRyAjQq8ud7hVNYcfnVPJqcVpscN5So8BhtHuGYqET5GDW5CV"
	devPrivateKey = "d2653ff7cbb2d8ff129ac27ef5781ce68b2558c41a74af1f2ddca635cbeef07d"
)

// Workload pushes transactions to the producer until the test ends: new
// accounts, and every so often an ABI of bigABI random bytes, which shows up
// in the block, in its trace and in its delta.
type Workload struct {
	mu     sync.Mutex
	pushed int
	errs   []error
}

// bigABI makes a block result of more than 1 MiB.
const bigABI = 400 << 10

// StartWorkload starts to push some three transactions a second. At the end of
// the test it fails when none was accepted.
func (f *Fleet) StartWorkload(t testing.TB) *Workload {
	t.Helper()
	info, err := f.Producer.Info()
	if err != nil {
		t.Fatal(err)
	}
	chainID, err := hex.DecodeString(info.ChainID)
	if err != nil {
		t.Fatal(err)
	}
	w := &Workload{}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.run(ctx, f.Producer, chainID)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.pushed == 0 {
			t.Errorf("no transaction of the workload was accepted: %v", w.errs)
		}
	})
	return w
}

// Pushed is the number of transactions that the producer took so far.
func (w *Workload) Pushed() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pushed
}

func (w *Workload) run(ctx context.Context, producer *Node, chainID []byte) {
	tick := time.NewTicker(300 * time.Millisecond)
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		a := newAccount(randomName())
		if i%5 == 0 {
			a = setABI("eosio", randomBytes(bigABI))
		}
		err := push(producer, chainID, a)
		w.mu.Lock()
		if err == nil {
			w.pushed++
		} else if len(w.errs) < 5 {
			w.errs = append(w.errs, err)
		}
		w.mu.Unlock()
	}
}

// action is one action of the eosio account, authorized by eosio@active.
type action struct {
	name string
	data []byte
}

// newAccount creates an account that the development key owns.
func newAccount(account string) action {
	data := appendName(appendName(nil, "eosio"), account)
	data = appendAuthority(appendAuthority(data))
	return action{"newaccount", data}
}

// setABI stores an ABI, which the chain keeps as bytes and does not read.
func setABI(account string, abi []byte) action {
	return action{"setabi", appendBytes(appendName(nil, account), abi)}
}

// push signs a transaction of one action and hands it to the node.
func push(n *Node, chainID []byte, a action) error {
	info, err := n.Info()
	if err != nil {
		return err
	}
	trx, err := signedTransaction(info, chainID, a)
	if err != nil {
		return err
	}
	var out struct {
		ID string `json:"transaction_id"`
	}
	return n.call("/v1/chain/push_transaction", trx, &out)
}

// signedTransaction is the body of a push_transaction request.
func signedTransaction(info Info, chainID []byte, a action) (map[string]any, error) {
	ref, err := hex.DecodeString(info.HeadID)
	if err != nil || len(ref) != 32 {
		return nil, fmt.Errorf("head id %q: %w", info.HeadID, err)
	}
	// About half of all signatures have a form that the chain refuses. Another
	// expiration gives another one.
	for i := range 64 {
		trx := appendTransaction(nil, time.Now().Add(60*time.Second+time.Duration(i)*time.Second), ref, a)
		sig, canonical := sign(chainID, trx)
		if !canonical {
			continue
		}
		return map[string]any{
			"signatures":               []string{signatureText(sig)},
			"compression":              "none",
			"packed_context_free_data": "",
			"packed_trx":               hex.EncodeToString(trx),
		}, nil
	}
	return nil, fmt.Errorf("no canonical signature for %s", a.name)
}

func appendTransaction(b []byte, expires time.Time, ref []byte, a action) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(expires.Unix()))
	b = append(b, ref[3], ref[2]) // ref_block_num: the number's low half, little endian
	b = append(b, ref[8:12]...)   // ref_block_prefix
	b = append(b, 0, 0, 0)        // no limits, no delay
	b = append(b, 0, 1)           // no context-free actions, one action
	b = appendName(appendName(b, "eosio"), a.name)
	b = append(b, 1)
	b = appendName(appendName(b, "eosio"), "active")
	b = appendBytes(b, a.data)
	return append(b, 0) // no extensions
}

// sign makes the compact signature: header, r, s.
func sign(chainID, trx []byte) (sig []byte, canonical bool) {
	h := sha256.New()
	h.Write(chainID)
	h.Write(trx)
	h.Write(make([]byte, sha256.Size)) // the digest of no context-free data
	raw, err := hex.DecodeString(devPrivateKey)
	if err != nil {
		panic(err) // a constant
	}
	sig = ecdsa.SignCompact(secp256k1.PrivKeyFromBytes(raw), h.Sum(nil), true)
	return sig, shortest(sig[1:33]) && shortest(sig[33:])
}

// shortest reports whether a number is positive in 32 bytes and in no fewer.
func shortest(b []byte) bool { return b[0] < 0x80 && (b[0] != 0 || b[1] >= 0x80) }

func signatureText(sig []byte) string {
	h := ripemd160.New()
	h.Write(sig)
	h.Write([]byte("K1"))
	return "SIG_K1_" + base58(append(bytes.Clone(sig), h.Sum(nil)[:4]...))
}

// base58 is for input that does not begin with zeros, as no signature does.
func base58(b []byte) string {
	const digits = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
	n, base, digit := new(big.Int).SetBytes(b), big.NewInt(58), new(big.Int)
	var out []byte
	for n.Sign() > 0 {
		n.DivMod(n, base, digit)
		out = append([]byte{digits[digit.Int64()]}, out...)
	}
	return string(out)
}

// appendName packs a name of up to 12 characters.
func appendName(b []byte, name string) []byte {
	const chars = ".12345abcdefghijklmnopqrstuvwxyz"
	var v uint64
	for i := range 12 {
		v <<= 5
		if i < len(name) {
			v |= uint64(bytes.IndexByte([]byte(chars), name[i]))
		}
	}
	return binary.LittleEndian.AppendUint64(b, v<<4)
}

// appendAuthority packs one signature of the development key.
func appendAuthority(b []byte) []byte {
	raw, err := hex.DecodeString(devPrivateKey)
	if err != nil {
		panic(err) // a constant
	}
	b = append(b, 1, 0, 0, 0, 1, 0) // threshold 1, one key, of kind K1
	b = append(b, secp256k1.PrivKeyFromBytes(raw).PubKey().SerializeCompressed()...)
	return append(b, 1, 0, 0, 0) // weight 1, no accounts, no waits
}

func appendBytes(b, v []byte) []byte {
	return append(binary.AppendUvarint(b, uint64(len(v))), v...)
}

func randomName() string {
	name := []byte("w...........")
	for i := 1; i < len(name); i++ {
		name[i] = byte('a' + rand.IntN(26))
	}
	return string(name)
}

func randomBytes(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rand.Uint32())
	}
	return b
}
