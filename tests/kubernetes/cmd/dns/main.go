// dns: answers every query with the address 192.0.2.1. It stands in for coredns.
package main

import (
	"log"
	"net"

	"golang.org/x/net/dns/dnsmessage"
)

func main() {
	socket, err := net.ListenPacket("udp", ":53")
	if err != nil {
		log.Fatal(err)
	}
	log.Print("listens")
	query := make([]byte, 1500)
	for {
		length, client, err := socket.ReadFrom(query)
		if err != nil {
			log.Fatal(err)
		}
		var message dnsmessage.Message
		if message.Unpack(query[:length]) != nil {
			continue
		}
		message.Response, message.Authoritative, message.Additionals = true, true, nil
		for _, question := range message.Questions {
			head := dnsmessage.ResourceHeader{Name: question.Name, Class: question.Class, TTL: 1}
			body := &dnsmessage.AResource{A: [4]byte{192, 0, 2, 1}}
			message.Answers = append(message.Answers, dnsmessage.Resource{Header: head, Body: body})
		}
		if answer, err := message.Pack(); err == nil {
			_, _ = socket.WriteTo(answer, client)
		}
	}
}
