module tollgate.example/go-reverseproxy

go 1.24
